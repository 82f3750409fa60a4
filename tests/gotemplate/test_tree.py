from __future__ import annotations

from hsdns.gotemplate import tree


def test_spelling() -> None:
    name = tree.Command(0, (tree.Function(0, "print"), tree.Field(0, ("A", "B")), tree.Dot(0)))
    pipeline = tree.Pipeline(0, (name,), ("$x",))
    chain = tree.Chain(0, pipeline, ("C",))
    assert str(chain) == "($x := print .A.B .).C"
    assert str(tree.Include(0, "t", None)) == '{{template "t"}}'
    assert str(tree.Jump(0, "break")) == "{{break}}"
    assert str(tree.Constant(0, None, "nil")) == "nil"
    assert str(tree.Variable(0, "$", ("A",))) == "$.A"
