"""JSON reports are valid against report.schema.json, and the schema is strict.

usage: test_schema.py SCHEMA REPORT_SAMPLE_PROGRAM
"""

import copy
import json
import subprocess
import sys
import unittest

import jsonschema

SCHEMA, SAMPLE = sys.argv[1:3]
OPTIONAL = {"blocks", "graph", "name"}


def objects(value, path=()):
    """Every JSON object in `value` with the keys that lead to it."""
    if isinstance(value, dict):
        yield path, value
        for key, item in value.items():
            yield from objects(item, path + (key,))
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from objects(item, path + (index,))


def at(value, path):
    for step in path:
        value = value[step]
    return value


class SchemaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(SCHEMA, encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        cls.validator = jsonschema.Draft202012Validator(schema)
        output = subprocess.run([SAMPLE], check=True, stdout=subprocess.PIPE, timeout=30).stdout
        lines = output.decode("utf-8").splitlines()
        cls.documents = [json.loads(line, parse_constant=cls.fail_constant) for line in lines]
        cls.full = cls.documents[1]

    @staticmethod
    def fail_constant(name):
        raise ValueError(f"{name} is not JSON")

    def test_samples_are_valid(self):
        self.assertEqual(len(self.documents), 4)
        for number, document in enumerate(self.documents):
            with self.subTest(sample=number):
                self.validator.validate(document)

    def test_no_object_takes_an_unknown_key(self):
        for path, _ in objects(self.full):
            with self.subTest(path=path):
                document = copy.deepcopy(self.full)
                at(document, path)["unknown"] = 1
                self.assertFalse(self.validator.is_valid(document))

    def test_no_required_key_may_be_absent(self):
        for path, item in objects(self.full):
            if path == ("options",):
                continue
            for key in item:
                document = copy.deepcopy(self.full)
                del at(document, path)[key]
                # A kernel's or fallback's count always has a name; only a graph's node may lack it.
                optional = key in OPTIONAL and not (key == "name" and "kernels" in path)
                with self.subTest(path=path, key=key):
                    self.assertEqual(self.validator.is_valid(document), optional)

    def test_wrong_values_are_refused(self):
        wrong = {
            ("schema",): "hipgraft.report/2",
            ("captures", 0, "status"): "fine",
            ("captures", 0, "mode"): "Global",
            ("captures", 0, "edges"): -1,
            ("captures", 0, "count"): 0,
            ("captures", 0, "first_cause"): {},
            ("captures", 0, "arena", "blocks"): [],
            ("captures", 0, "graph", "edges"): [[1, 2, 3]],
            ("captures", 0, "lost"): [{"api": "hipMemcpy", "count": 1}],
            ("options", "PATH"): "/bin",
        }
        for path, value in wrong.items():
            with self.subTest(path=path):
                document = copy.deepcopy(self.full)
                at(document, path[:-1])[path[-1]] = value
                self.assertFalse(self.validator.is_valid(document))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
