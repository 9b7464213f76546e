// What stands behind a program's exec handle.
//
// On some runtimes (runtime::updates_pile_up) each hipGraphExecUpdate takes memory that only the
// end of the exec gives back. An exec that has been updated often is therefore renewed: once the
// runtime has accepted the next update, the exec is made once more, and from then on the program's
// handle means the new one. The runtime keeps the former one until its last launch is over, even if
// it is destroyed before (seen on 6.4 and 7.2). The exec that the handle names is kept until the
// program destroys it: nobody else is given its address.
//
// Nodes must name the same parts of the new exec as of the old one. So it is made from the graph
// that the program made its exec from, then updated as the old one was. If that graph is gone no
// node handle names a part of the exec any more, and it is made from the graph of the update.
#pragma once

#include "capture/state.h"

namespace hipgraft::capture {

// What calls that take an exec must hand to the runtime for the program's `exec`. Any thread; takes
// the lock only if an exec was renewed. The second one: with the lock held.
abi::hipGraphExec_t behind(abi::hipGraphExec_t exec);
abi::hipGraphExec_t behind_locked(abi::hipGraphExec_t exec);

// hipGraphInstantiate and its variants have succeeded.
void exec_made(abi::hipGraphExec_t exec, abi::hipGraph_t from, unsigned long long flags);

// hipGraphExecUpdate has succeeded: renews the exec if it is worn. Its launches see a change of
// `generation`.
void exec_worn(abi::hipGraphExec_t exec, abi::hipGraph_t updated_from);

// The exec gets a state that updates leave alone, and so must not be renewed from now on.
void keep_exec(abi::hipGraphExec_t exec);

// A graph keeps user objects alive from now on. An exec that is made from it would keep them too,
// where the update alone does not, so no exec is renewed any more.
void user_objects_seen();

// The program has a graph that ends with the one around it, unseen by us.
void inner_graph_seen(abi::hipGraph_t graph);

// hipGraphExecDestroy and hipGraphDestroy.
abi::hipError_t destroy_exec(abi::hipGraphExec_t exec);
abi::hipError_t destroy_graph(abi::hipGraph_t graph);

}  // namespace hipgraft::capture
