#!/usr/bin/python3
"""scripts/check_rows.py finds what it is for: it is shown a breach of each kind."""

import unittest

import check_rows

CPP = """
TEST(Conformance, Row010_OnlyTheStaleTaskIsNamedToBothPolls) {
TEST_F(StockListenerTest, Row81CompressedRequestsWork) {
TEST_P(Endings,
       Row116_OthersWait) {
TEST(MendedDefect, Defect03_AStranger) {
TEST(Rowing, AcrossTheLake) {
TEST(Gaps, Gap03_OfNoTable) {
TEST_F(Preemption, PreemptionRow04_WaitsForItsWindow) {
TEST_F(Hold, PreemptionGap18_IsTrueForOneStep) {
TEST_F(Hold, PreemptionDefect01_IsReached) {
TEST_F(PreemptionRestart, PreemptionKilled02_TheServer) {
TEST(RendezvousRow, RendezvousRow08_SendThenReceive) {
TEST_F(Preemption, RowsOfThem) {
  // TEST(Conformance, Row011_InAComment)
"""


class FindsTests(unittest.TestCase):
    def rows(self, name, text):
        return [check_rows.row_of(test) for _, test in check_rows.tests_in(name, text)]

    def test_in_cpp(self):
        self.assertEqual(self.rows("a_test.cc", CPP), [
            "10", "81", "116", "D3", None, None, "P4", "PG18", "PD1", "PK2", "R8", None])

    def test_in_python(self):
        text = ("def test_row_083_nobody(three):\n    def test_defect_02_x(self):\ndef helper():\n"
                "def test_preemption_gap_15_a_malformed_notice(job):\n")
        self.assertEqual(self.rows("test_a.py", text), ["83", "D2", "PG15"])


class FindsBreaches(unittest.TestCase):
    def problem(self, by, known=(), tests=()):
        return check_rows.problem_of("7", by, set(known), {"7": list(tests)})

    def test_a_row_with_a_test_or_a_reason_is_well(self):
        self.assertIsNone(self.problem("tested", tests=["A.Row007_x"]))
        self.assertIsNone(self.problem("none: family T"))
        self.assertIsNone(self.problem("A.b, C.d", known=["A.b", "C.d"]))

    def test_a_row_with_neither(self):
        self.assertIn("no test, and no reason", self.problem("tested"))
        self.assertIn("no test, and no reason", self.problem("none: "))

    def test_a_reason_that_a_test_made_untrue(self):
        self.assertIn("but A.Row007_x is one", self.problem("none: hard", tests=["A.Row007_x"]))

    def test_a_name_that_is_gone(self):
        self.assertIn("not there: C.d", self.problem("A.b, C.d", known=["A.b"]))

    def test_rows_missing_doubled_and_invented(self):
        rows = [(row, "x", "none: y") for row in check_rows.ROWS if row != "5"]
        rows += [("6", "x", "none: y"), ("134", "x", "none: y")]

        problems = list(check_rows.check(rows, set(), {"99": ["A.Row099_x"], "D77": ["B.c"]}))

        self.assertEqual(sorted(problems), [
            "row 134: is not one that scripts/check_rows.py knows",
            "row 5: stands 0 times in the documents",
            "row 6: stands 2 times in the documents",
            "row 99: says that it has no test, but A.Row099_x is one",
            "row D77: B.c carries it, but there is no such row"])


if __name__ == "__main__":
    unittest.main()
