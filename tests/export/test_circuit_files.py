"""Circuits as files: MIB's layout, GraphML that networkx reads, and a drawing."""

import json
from xml.etree import ElementTree

import networkx
import numpy as np
import pytest

import headcount as hc
from families import random_task, tiny

TASK = random_task()


@pytest.fixture(scope="module")
def scores():
    return hc.score(tiny("gpt2"), TASK, "eap")


@pytest.fixture(scope="module")
def grouped():
    return hc.score(tiny("llama-gqa"), TASK, "eap")


@pytest.fixture(scope="module")
def whole():
    return hc.score(tiny("llama-gqa"), TASK, "eap", readers="components")


def test_mibs_layout(scores, tmp_path):
    circuit = scores.circuit(20)
    found = json.loads(circuit.save_mib(tmp_path / "circuit.json").read_text())
    assert found["cfg"] == {"n_layers": 3, "n_heads": 4, "parallel_attn_mlp": False, "d_model": 32}
    assert list(found["nodes"])[:6] == ["input", "a0.h0", "a0.h1", "a0.h2", "a0.h3", "m0"]
    assert len(found["edges"]) == 262
    assert sum(edge["in_graph"] for edge in found["edges"].values()) == 20
    writer, reader = scores.order()[0]
    name = f"{scores.graph.writers[writer]}->{scores.graph.readers[reader]}"
    assert found["edges"][name] == {"score": scores.values[writer, reader], "in_graph": True}
    assert {"input->a0.h0<q>", "a0.h3->m0", "m2->logits"} <= set(found["edges"])


def test_for_mib_a_kv_head_is_written_out_for_its_query_heads(grouped, tmp_path):
    found = json.loads(grouped.circuit(60).save_mib(tmp_path / "circuit.json").read_text())
    assert len(found["edges"]) == 262
    value = grouped.values[0, grouped.graph.readers.index("a1.h1<v>")]
    for head in (2, 3):
        assert found["edges"][f"input->a1.h{head}<v>"]["score"] == pytest.approx(value / 2)
    assert sum(e["score"] for e in found["edges"].values()) == pytest.approx(grouped.values.sum())


def test_networkx_reads_the_graphml(scores, tmp_path):
    circuit = scores.circuit(40)
    graph = networkx.read_graphml(circuit.save_graphml(tmp_path / "circuit.graphml"), force_multigraph=True)
    assert graph.number_of_edges() == 40
    assert set(graph.nodes) == set(circuit.nodes)
    assert networkx.is_directed_acyclic_graph(graph)
    found = sorted((a, b, data.get("role") or "", data["score"]) for a, b, data in graph.edges(data=True))
    assert found == sorted((e.writer, e.node, e.role, e.score) for e in circuit.edges())
    assert graph.nodes[circuit.nodes[1]]["layer"] == circuit.layer_of(circuit.nodes[1])


def test_the_drawing_holds_every_node_and_edge_inside_its_frame(grouped, tmp_path):
    circuit = grouped.circuit(30)
    path = circuit.save_svg(tmp_path / "circuit.svg")
    root = ElementTree.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    shown = circuit.by_query_head().pruned()
    texts = [text.text for text in root.iter(f"{space}text")]
    assert set(shown.nodes) <= set(texts)
    assert len(list(root.iter(f"{space}path"))) == len(shown)
    width, height = float(root.get("width")), float(root.get("height"))
    for box in root.iter(f"{space}rect"):
        assert float(box.get("x", 0)) + float(box.get("width")) <= width
        assert float(box.get("y", 0)) + float(box.get("height")) <= height
    assert "30 of 190 edges" in " ".join(texts[:2])
    heads = {f"url(#{marker.get('id')})" for marker in root.iter(f"{space}marker")}
    for drawn in root.iter(f"{space}path"):
        assert drawn.get("marker-end") in heads, "an arrowhead shows which way an edge leads"
        assert float(drawn.get("stroke-width")) >= 1, "the weakest edge is visible"


def test_whole_edges_are_one_edge_for_networkx_and_three_for_mib(whole, tmp_path):
    circuit = whole.circuit(30)
    graph = networkx.read_graphml(circuit.save_graphml(tmp_path / "circuit.graphml"))
    assert graph.number_of_edges() == 30
    assert networkx.is_directed_acyclic_graph(graph)
    found = json.loads(circuit.save_mib(tmp_path / "circuit.json").read_text())
    assert len(found["edges"]) == 262
    for writer, reader in np.argwhere(whole.graph.real):
        node, name = whole.graph.readers[reader], whole.graph.writers[writer]
        parts = [f"{node}<{role}>" for role in "qkv"] if node.startswith("a") else [node]
        written = [found["edges"][f"{name}->{part}"] for part in parts]
        assert {edge["in_graph"] for edge in written} == {bool(circuit.keep[writer, reader])}
        assert sum(edge["score"] for edge in written) == pytest.approx(whole.values[writer, reader], abs=1e-12)


def test_whole_edges_are_drawn_once(whole, tmp_path):
    circuit = whole.circuit(30)
    text = circuit.save_svg(tmp_path / "circuit.svg").read_text()
    assert text.count("<path") == len(circuit.pruned())
    assert f"30 of {whole.graph.n_edges} edges" in text
    assert ">head</text>" in text
    assert ">query</text>" not in text


def test_a_large_circuit_is_drawn_in_part_and_says_so(scores, tmp_path):
    whole = scores.circuit(262)
    drawing = ElementTree.parse(whole.save_svg(tmp_path / "circuit.svg", most=15))
    shown = whole.strongest(15)
    assert 0 < len(shown) <= 15
    words = " ".join(filter(None, drawing.getroot().itertext()))  # a long title has several lines
    assert f"drawn: the {len(shown)} strongest that are connected" in " ".join(words.split())
    np.testing.assert_array_equal(shown.keep, shown.pruned().keep)


def test_an_empty_circuit_is_a_file_too(scores, tmp_path):
    empty = scores.circuit(0)
    assert len(empty) == 0
    ElementTree.parse(empty.save_svg(tmp_path / "empty.svg"))
    assert networkx.read_graphml(empty.save_graphml(tmp_path / "empty.graphml")).number_of_edges() == 0


def test_more_edges_than_there_are(scores):
    with pytest.raises(hc.HeadcountError, match="between 0 and the model's 262 edges; 263 does not"):
        scores.circuit(263)


@pytest.mark.parametrize("changes", [{"n_layers": 10**9}, {"n_heads": 10**12}, {"n_layers": 0}, {"n_heads": "2"}])
def test_a_circuit_of_more_heads_than_edges_is_refused_at_once(scores, tmp_path, changes):
    place = scores.circuit(8).save_mib(tmp_path / "circuit.json")
    found = json.loads(place.read_text())
    place.write_text(json.dumps({**found, "cfg": {**found["cfg"], **changes}}))
    with pytest.raises(hc.HeadcountError, match="is no circuit as MIB writes them"):
        hc.export_result("mib", place, tmp_path / "again.json")
