"""The costs that `accelerator.py` reads from compiled programs, against hand counts."""

import json
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerators import (
    bench,
    compiling,
    costs,
    environment,
    hlo,
    measured,
    measuring,
    tables,
    targets,
)
from accelerators.networks import NETWORKS, Mean
from accelerators.programs import (
    alterations_by_name,
    further_alterations,
    of_function,
    step,
)
from every_alteration import every_alteration
from jax.sharding import Mesh

from jaxrob import alterations
from jaxrob.alterations._forms import FORMS

PAGE = pathlib.Path(__file__).parents[2] / "docs/measurements/accelerators.md"
SCRIPT = "accelerator.py"
TPU, GPU = targets.load("v5e"), targets.load("h100")
# Operations of the MNIST CNN for one image: two 3x3 convolutions, two dense layers.
MNIST_FLOPS = 2 * (28**2 * 32 * 9 + 14**2 * 64 * 9 * 32 + 3136 * 128 + 128 * 10)


@pytest.mark.parametrize(
    ("name", "number"), [("resnet50", 25_557_032), ("vit_b16", 86_567_656)]
)
def test_large_networks_have_the_published_number_of_weights(name, number):
    """As in torchvision's documentation."""
    weights = jax.tree.leaves(NETWORKS[name].variables()["params"])
    assert sum(leaf.size for leaf in weights) == number


def cycles(number):
    return f'backend_config={{"window_config":{{"estimated_cycles":"{number}"}}}}'


def microseconds(time, kind="__loop", **others):
    entries = [{"exec_time_us": time, "name": ""}]
    entries += [{"exec_time_us": t, "name": name} for name, t in others.items()]
    return (
        f'backend_config={{"fusion_backend_config":{{"kind":"{kind}"}},'
        f'"reification_cost":{json.dumps(entries, separators=(",", ":"))}}}'
    )


LOOPS = f"""HloModule loops, is_scheduled=true

%inner_body (state: (s32[], f32[8])) -> (s32[], f32[8]) {{
  %state = (s32[], f32[8]{{0}}) parameter(0)
  %moved = f32[8]{{0}} fusion(%state), kind=kLoop, calls=%nothing, {cycles(100)}
  ROOT %next = (s32[], f32[8]{{0}}) tuple(%state, %moved)
}}

%inner_condition (state: (s32[], f32[8])) -> pred[] {{
  %state = (s32[], f32[8]{{0}}) parameter(0)
  %limit = s32[] constant(7)
  %counter = s32[] get-tuple-element(%state), index=0
  ROOT %less = pred[] compare(%counter, %limit), direction=LT, {cycles(1)}
}}

%outer_body (state: (s32[], f32[8])) -> (s32[], f32[8]) {{
  %state = (s32[], f32[8]{{0}}) parameter(0)
  %two = s32[] constant(2)
  %copied = s32[] copy(%two), {cycles(0)}
  %begin = (s32[], f32[8]{{0}}) tuple(%copied, %state)
  %once = f32[8]{{0}} fusion(%state), kind=kLoop, calls=%nothing, {cycles(7)}
  ROOT %while.1 = (s32[], f32[8]{{0}}) while(%begin), condition=%inner_condition, body=%inner_body
}}

%outer_condition (state: (s32[], f32[8])) -> pred[] {{
  %state = (s32[], f32[8]{{0}}) parameter(0)
  ROOT %less = pred[] fusion(%state), kind=kLoop, calls=%unknown, {cycles(2)}
}}

ENTRY %main (x: (s32[], f32[8])) -> (s32[], f32[8]) {{
  %x = (s32[], f32[8]{{0}}) parameter(0)
  ROOT %while.2 = (s32[], f32[8]{{0}}) while(%x), condition=%outer_condition, body=%outer_body TRIP
}}
"""  # noqa: E501


def test_loops_turn_as_often_as_they_do():
    known = ', backend_config={"known_trip_count":{"n":"3"}}'
    cost = costs.cost_of(LOOPS.replace(" TRIP", known), TPU)
    # Three times: 7, from 2 to 7 times 100 and the inner condition, the outer
    # condition.
    assert cost.cycles == pytest.approx(3 * (7 + 5 * (100 + 1) + 2))
    assert cost.launches == 3 * (2 + 5 * 2 + 1)
    assert cost.unknown_loops == 0
    unknown = costs.cost_of(LOOPS.replace(" TRIP", ""), TPU, turns=4)
    assert unknown.cycles == pytest.approx(4 * (7 + 5 * (100 + 1) + 2))
    assert unknown.unknown_loops == 1


@pytest.mark.parametrize("named", ["true_computation", "branch_computations"])
def test_of_a_conditional_the_dearest_branch_counts(named):
    branches = "true_computation=%dear, false_computation=%cheap"
    if named == "branch_computations":
        branches = "branch_computations={%cheap, %dear}"
    text = f"""HloModule branches

%cheap (a: f32[8]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  ROOT %copy = f32[8]{{0}} copy(%a), {cycles(10)}
}}

%dear (b: f32[8]) -> f32[8] {{
  %b = f32[8]{{0}} parameter(0)
  %first = f32[8]{{0}} copy(%b), {cycles(400)}
  ROOT %second = f32[8]{{0}} copy(%first), {cycles(600)}
}}

ENTRY %main (p: pred[], x: f32[8]) -> f32[8] {{
  %p = pred[] parameter(0)
  %x = f32[8]{{0}} parameter(1)
  ROOT %which = f32[8]{{0}} conditional(%p, %x, %x), {branches}
}}
"""
    cost = costs.cost_of(text, TPU)
    assert cost.cycles == pytest.approx(1000)
    assert [kernel.name for kernel in cost.kernels] == ["first", "second"]


def test_a_convolution_costs_its_operations_or_its_bytes():
    text = """HloModule convolutions

ENTRY %main (x: f32[8,6,6,CHANNELS], k: f32[32,3,3,CHANNELS]) -> f32[8,6,6,32] {
  %x = f32[8,6,6,CHANNELS]{3,2,1,0} parameter(0)
  %k = f32[32,3,3,CHANNELS]{3,2,1,0} parameter(1)
  %conv = (f32[8,6,6,32]{3,2,1,0}, u8[0]{0}) custom-call(%x, %k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_o01i->b01fGROUPS, custom_call_target="__cudnn$convForward", backend_config={"reification_cost":[]}
  ROOT %y = f32[8,6,6,32]{3,2,1,0} get-tuple-element(%conv), index=0
}
"""  # noqa: E501

    def cost(channels, groups=""):
        shaped = text.replace("CHANNELS", str(channels)).replace("GROUPS", groups)
        (kernel,) = costs.cost_of(shaped, GPU).kernels
        assert kernel.kind == "convolution" and kernel.what == "__cudnn$convForward"
        assert kernel.flops == 2 * 8 * 6 * 6 * 32 * 9 * channels
        return kernel

    for kernel, rate in (
        (cost(3), 3e12),
        (cost(1024), 60e12),
        (cost(1024, ", feature_group_count=2"), 3e12),
    ):
        assert kernel.seconds == pytest.approx(kernel.flops / rate)
    kernel = cost(16)
    moved = 4 * (8 * 36 * 16 + 32 * 9 * 16 + 8 * 36 * 32)
    assert kernel.num_bytes == moved
    at_least = max(kernel.flops / 60e12, moved / 3.35e12)
    assert kernel.seconds == pytest.approx(at_least)


def test_a_product_in_a_library_costs_its_operations():
    text = """HloModule products

ENTRY %main (a: f32[2048,1024], b: f32[1024,4096]) -> f32[2048,4096] {
  %a = f32[2048,1024]{1,0} parameter(0)
  %b = f32[1024,4096]{1,0} parameter(1)
  %gemm = (f32[2048,4096]{1,0}, s8[4194304]{0}) custom-call(%a, %b), custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}
  ROOT %y = f32[2048,4096]{1,0} get-tuple-element(%gemm), index=0
}
"""  # noqa: E501
    (kernel,) = costs.cost_of(text, GPU).kernels
    assert kernel.flops == 2 * 2048 * 1024 * 4096
    assert kernel.seconds == pytest.approx(kernel.flops / 60e12)


FUSIONS = f"""HloModule fusions

%gathers (p0: f32[1000,784], p1: s32[16]) -> f32[16,784] {{
  %p0 = f32[1000,784]{{1,0}} parameter(0)
  %p1 = s32[16]{{0}} parameter(1)
  ROOT %rows = f32[16,784]{{1,0}} gather(%p0, %p1), offset_dims={{1}}
}}

%updates (p0: f32[1000,784], p1: f32[1,784], p2: s32[]) -> f32[1000,784] {{
  %p0 = f32[1000,784]{{1,0}} parameter(0)
  %p1 = f32[1,784]{{1,0}} parameter(1)
  %p2 = s32[] parameter(2)
  ROOT %put = f32[1000,784]{{1,0}} dynamic-update-slice(%p0, %p1, %p2, %p2)
}}

ENTRY %main (x: f32[1000,784], i: s32[16], row: f32[1,784], n: s32[]) -> f32[1000,784] {{
  %x = f32[1000,784]{{1,0}} parameter(0)
  %i = s32[16]{{0}} parameter(1)
  %row = f32[1,784]{{1,0}} parameter(2)
  %n = s32[] parameter(3)
  %some = f32[16,784]{{1,0}} fusion(%x, %i), kind=kLoop, calls=%gathers, {microseconds(2.5)}
  %block = f32[16]{{0}} fusion(%some), kind=kCustom, calls=%gathers, {microseconds(9000, "__triton", **{"indexing-cost-model": 1.5})}
  ROOT %new = f32[1000,784]{{1,0}} fusion(%x, %row, %n), kind=kLoop, calls=%updates, {microseconds(1)}
}}
"""  # noqa: E501


def test_fusions_read_what_they_take_and_cost_the_models_time():
    some, block, new = costs.cost_of(FUSIONS, GPU).kernels
    assert some.num_bytes == 4 * (16 * 784 + 16 + 16 * 784)
    assert some.seconds == pytest.approx(2.5e-6)
    # The model for single loops does not hold for reductions by blocks.
    assert block.seconds == pytest.approx(1.5e-6)
    # A row is read and written in place, beside its number.
    assert new.num_bytes == 4 * (784 + 1 + 784)


def test_what_has_no_estimate_costs_its_bytes():
    text = FUSIONS.replace("reification_cost", "nothing")
    some, *_ = costs.cost_of(text, TPU).kernels
    assert some.kind == "bytes"
    assert some.seconds == pytest.approx(some.num_bytes / 819e9)
    # Not less if the buffer stays on the chip, although that is no traffic. Fusions
    # name no memory.
    inside, entry = text.split("ENTRY")
    on_chip = inside.replace("{1,0}", "{1,0:T(8,128)}") + "ENTRY"
    on_chip += entry.replace("{1,0}", "{1,0:T(8,128)S(1)}")
    some, *_ = costs.cost_of(on_chip, TPU).kernels
    assert some.num_bytes == 4 * 16
    assert some.seconds == pytest.approx(4 * (16 + 2 * 16 * 896) / 819e9)


def test_a_tpu_takes_at_least_the_time_of_its_bytes():
    text = f"""HloModule copies

ENTRY %main (x: f32[8192,16384]) -> f32[8192,16384] {{
  %x = f32[8192,16384]{{1,0}} parameter(0)
  ROOT %copy = f32[8192,16384]{{1,0}} copy(%x), {cycles(94)}
}}
"""
    cost = costs.cost_of(text, TPU)
    assert cost.cycles == pytest.approx(94)
    assert cost.bound == "bytes"
    assert cost.seconds == pytest.approx(2 * 4 * 8192 * 16384 / 819e9)
    assert cost.roofline_share(TPU) == pytest.approx(1)


def test_slices_copied_beside_kernels_cost_their_bytes_once():
    half = "f32[4,128]{1,0:S(1)}"

    def part(name, rows):
        ends = f"((f32[8,128]{{1,0}}), {half}, s32[]{{:S(2)}})"
        start = f"{ends} slice-start(%x), slice={{[{rows}], [0:128]}}"
        return f"  %{name} = {start}\n  %{name}-done = {half} slice-done(%{name})"

    joined = 'custom-call(%a-done, %b-done), custom_call_target="ConcatBitcast"'
    text = f"""HloModule slices

ENTRY %main (x: f32[8,128]) -> f32[8,128] {{
  %x = f32[8,128]{{1,0}} parameter(0)
{part("a", "0:4")}
{part("b", "4:8")}
  %both = f32[8,128]{{1,0:S(1)}} {joined}
  ROOT %negate = f32[8,128]{{1,0}} negate(%both), {cycles(940)}
}}
"""
    cost = costs.cost_of(text, TPU)
    # Read once from the large memory, and written there once at the end.
    assert cost.num_bytes == 2 * 4 * 8 * 128
    assert cost.cycles == pytest.approx(940)


@pytest.mark.parametrize(
    ("text", "num_bytes", "is_on_chip"),
    [
        ("f32[100,28]{1,0}", 4 * 100 * 28, False),
        ("f32[100,28]{1,0:T(8,128)}", 4 * 104 * 128, False),
        ("f32[100,28]{0,1:T(8,128)S(1)}", 4 * 32 * 128, True),
        ("bf16[100,28,28,1]{0,3,2,1:T(2,128)(2,1)}", 2 * 128 * 2 * 28 * 28, False),
        ("f32[32]{0:T(128)}", 4 * 128, False),
        ("pred[]", 1, False),
    ],
)
def test_arrays_take_the_memory_of_their_layout(text, num_bytes, is_on_chip):
    (array,) = hlo.arrays(text)
    assert (array.num_bytes, array.is_on_chip) == (num_bytes, is_on_chip)


@pytest.mark.parametrize("first_parent", ["", "parent_frame_id=1"])
def test_lines_of_code_are_the_innermost_of_ours(first_parent):
    shift = 1 if first_parent else 0
    text = f"""HloModule lines

FileNames
1 "/home/me/script.py"
2 "/home/me/jaxrob/alterations/_zoom.py"
3 "/usr/lib/python3/site-packages/flax/linen/linear.py"

FunctionNames
1 "main"
2 "_zoom"
3 "Dense.__call__"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=5 end_line=5 column=1 end_column=2}}
2 {{file_name_id=2 function_name_id=2 line=44 end_line=44 column=1 end_column=2}}
3 {{file_name_id=3 function_name_id=3 line=9 end_line=9 column=1 end_column=2}}

StackFrames
1 {{file_location_id=1 {first_parent}}}
2 {{file_location_id=2 parent_frame_id={1 + shift}}}
3 {{file_location_id=3 parent_frame_id={2 + shift}}}

ENTRY %main (x: f32[8]) -> f32[8] {{
  %x = f32[8]{{0}} parameter(0)
  %a = f32[8]{{0}} copy(%x), metadata={{op_name="jit(f)/a" stack_frame_id=3}}
  ROOT %b = f32[8]{{0}} copy(%a), metadata={{op_name="b" source_file="/home/me/jaxrob/roma/_ball.py" source_line=3}}
}}
"""  # noqa: E501
    a, b = costs.cost_of(text, GPU).kernels
    assert a.place == "jaxrob/alterations/_zoom.py:44 _zoom"
    assert b.place == "jaxrob/roma/_ball.py:3"


def test_texts_without_a_program_are_refused():
    with pytest.raises(ValueError, match="ENTRY"):
        hlo.parse("HloModule nothing")


def test_a_compiled_loop_is_counted_by_hand():
    n, turns, inner = 48, 7, 3
    square = jax.ShapeDtypeStruct((n, n), jnp.float32)

    def f(x):
        def once(_, y):
            y = jax.lax.fori_loop(0, inner, lambda _, z: jnp.sin(z @ x), y)
            return y @ x

        return jax.lax.fori_loop(0, turns, once, x)

    text = jax.jit(f).lower(square).compile().as_text()
    cost = costs.cost_of(text, GPU)
    assert cost.unknown_loops == 0
    assert cost.flops == turns * (inner + 1) * 2 * n**3
    assert cost.collectives == 0


def test_collectives_are_seen():
    text = """HloModule sums

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %start = f32[8]{0} all-reduce-start(%x), to_apply=%sum
  ROOT %done = f32[8]{0} all-reduce-done(%start)
}
"""
    assert costs.cost_of(text, TPU).collectives == 1


def test_every_alteration_has_a_name():
    missing = every_alteration().keys()
    # The papers' alterations keep their own names.
    named = {**alterations_by_name(), **further_alterations()}
    assert missing <= named.keys()
    corruptions = {f"corruptions_{name}" for name in alterations.corruptions.__all__}
    # Its pictures are not part of the library.
    assert corruptions - named.keys() <= {"corruptions_frost"}


def test_programs_run_where_there_is_a_device():
    mesh = Mesh(np.array(jax.devices()[:1]), ("images",))
    network = NETWORKS["mnist_cnn"]._replace(
        make=Mean, image_shape=(8, 8, 1), num_images=4, num_levels=2
    )
    program = step(network, alterations_by_name()["brightness"], mesh)
    compiled = compiling.compile_for(program, GPU, mesh)
    assert measuring.seconds(program, compiled.executable) > 0
    levels = measuring.arguments(program)[5]
    np.testing.assert_allclose(levels, [-0.5, 0.5])

    @jax.jit
    def own(x):
        return x + 1

    giving = jax.jit(own, donate_argnums=0)
    one = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=program.args[2].sharding)
    program = of_function("gives away what it takes", giving, (one,), 0)
    compiled = compiling.compile_for(program, GPU, mesh)
    assert measuring.seconds(program, compiled.executable) > 0


def row_of(program, seconds, measured_seconds=None, **others):
    """A row as `tables.row` makes it, with the columns that are looked at here."""
    times = {"seconds": seconds, "measured_seconds": measured_seconds}
    rest = ("cycles", "bytes", "bytes_once_by_xla", "temporary_bytes", "kernel_seconds")
    rest += ("roofline_share", "launches", "launched_seconds", "collectives")
    nothing = dict.fromkeys((*rest, "compile_seconds"), 0)
    return nothing | {"program": program, "bound": "", "lines": []} | times | others


def cells(found, beside, target):
    """A line's cells with the names of their columns."""
    heading = tables.heading(target, measured=True)
    line = tables.line(found, beside, target, measured=True)
    names = re.findall(r"adds us|of all|of kernels|of best|of est\.|[\w.]+", heading)
    return list(zip(names, [found["program"], *line[24:].split()]))


@pytest.mark.parametrize(
    ("times", "batch"),
    [
        # On the chip 250 images fit, and half of them are too few.
        ({2000: 9.0, 250: 2.0, 125: 2.5, 500: 3.0}, 250),
        ({2000: 9.0, 250: 2.0, 125: 1.5, 62: 1.2, 31: 1.3, 500: 3.0}, 62),
        ({2000: 9.0, 250: 2.0, 125: 2.5, 500: 1.9, 1000: 1.8}, 1000),
        ({2000: 1.0, 250: 2.0, 125: 2.5, 500: 3.0}, 2000),
    ],
)
def test_the_best_forward_pass_is_searched_for(monkeypatch, capsys, times, batch):
    compiled = []

    def row(self, program, prepared=None):
        compiled.append(program.passes)
        return row_of("forward", times[program.passes] * program.passes)

    monkeypatch.setattr(bench.Bench, "row", row)
    monkeypatch.setattr(bench.programs, "usual_rows", lambda network, mesh: 250)
    mesh = Mesh(np.array(jax.devices()[:1]), ("images",))
    network = NETWORKS["mnist_cnn"]._replace(num_images=250, num_levels=8)
    one = bench.Bench(TPU, mesh, "mnist_cnn", network, {}, False, 0)
    best = one.best_forward(one.forward())
    assert (best["batch"], best["program"]) == (batch, "best forward")
    # As long as it takes for all images of a step.
    assert best["seconds"] == pytest.approx(times[batch] * 2000)
    assert f"takes {batch:,} images at a time" in capsys.readouterr().out
    assert sorted(compiled) == sorted(times)
    # A GPU takes all at once.
    compiled.clear()
    best = one._replace(target=GPU).best_forward(row_of("forward", 7.0))
    assert (best["batch"], best["seconds"], compiled) == (2000, 7.0, [])


def test_a_step_stands_beside_the_best_forward_pass():
    forward, best = row_of("forward", 8e-3, 4e-3), row_of("best forward", 2e-3, 1e-3)
    prepared = row_of("prepare zoom", 1e-3, 0.5e-3)
    step = tables.with_preparation(row_of("zoom", 4e-3, 3e-3), prepared)
    step = tables.with_best(step, best)
    assert step["of_best"] == pytest.approx(2 / 5)
    assert step["measured_of_best"] == pytest.approx(1 / 3.5)
    shown = cells(step, forward, TPU)
    assert ("ratio", "1.600") in shown and ("of best", "0.400") in shown


def test_what_was_measured_stands_beside_its_estimate():
    forward = row_of("forward", 8000e-6, 2000e-6, kernel_seconds=1e-3)
    step = row_of("zoom", 8100e-6, 2300e-6, prepare_seconds=100e-6)
    step = tables.with_best(step | {"measured_prepare_seconds": 100e-6}, forward)
    # With the preparation 8,200 and 2,400 us; added to the forward pass 200 and 400.
    assert cells(step, forward, GPU)[:11] == [
        ("program", "zoom"), ("us", "8,100"), ("adds us", "200"), ("of all", "2.5%"),
        ("of kernels", "20.0%"), ("of best", "0.976"), ("measured", "2,400"),
        ("of est.", "0.29"), ("adds us", "400"), ("of est.", "2.00"),
        ("of all", "20.0%"),
    ]  # fmt: skip


def test_a_runs_figures_are_kept_and_found_again(tmp_path, monkeypatch):
    size = "28x28x1, 1000 x 16"
    forward = row_of("forward", 8745e-6, 2846e-6)
    prepared = row_of("prepare zoom", 7e-6, 13e-6)
    step = tables.with_preparation(row_of("zoom", 8845e-6, 3046e-6), prepared)
    result = {"network": "mnist_cnn", "what": "steps", "size": size}
    document = {
        "target": "h100",
        "device": "NVIDIA H100 80GB HBM3",
        "versions": {"jax": "0.11.2", "jaxlib": "0.11.2", "platform": "CUDA 13.0"},
        "results": [result | {"programs": [forward, prepared, step]}],
    }
    monkeypatch.setattr(measured, "_FOLDER", tmp_path)
    assert measured.kept("h100") is None
    text = measured.text(measured.figures(document))
    measured.path_of("h100").write_text(text)
    # A line for each program, the preparation within its step's.
    assert len(text.splitlines()) == 4 + 2 + 3
    found = measured.kept("h100")
    (one,) = measured.of_program(found, "mnist_cnn", "steps", size, "zoom")
    assert (one["estimated_us"], one["measured_us"]) == (8852, 3059)
    assert not list(measured.of_program(found, "mnist_cnn", "alter", size, "zoom"))
    assert "| zoom | 107; 213 |" in list(measured.markdown(found))
    # A later run without the device shows it; but not what another form took.
    estimated = row_of("zoom", 8900e-6)
    shown = tables.with_kept(estimated, [one])
    assert shown["measured_seconds"] == pytest.approx(3059e-6)
    other = one | {"form": "table"}
    assert tables.with_kept(estimated, [other]) == estimated
    (line,) = tables.in_other_forms([one, other])
    assert "3,059 us measured" in line and "'table'" in line


def test_the_page_shows_the_figures_kept():
    lines = list(measured.markdown(measured.kept("h100")))
    table = "\n".join(lines)
    assert table in PAGE.read_text(), f"the page's table should be\n{table}"


def test_the_devices_versions_are_kept():
    found = measured.versions(jax.devices()[0])
    assert found["jax"] == jax.__version__
    assert "\n" not in found["platform"]


def test_forms_claim_what_was_measured():
    kept = measured.kept("h100")["programs"]
    times = {f"{one['measured_us']:,}" for one in kept if one["what"] == "alter"}
    claims = [form for form in FORMS if form.figure.startswith("H100")]
    assert len(claims) >= 3
    for form in claims:
        _, figures = form.figure.split(": ")
        assert set(re.findall(r"\d[\d,]*", figures)) <= times, form


@pytest.mark.slow
def test_the_script_says_what_it_lacks(run, tmp_path):
    code, out, err = run(SCRIPT)
    assert code == 1 and "--target says what is compiled for" in out + err
    code, out, err = run(SCRIPT, "--measure")
    assert code == 1 and "needs a GPU or TPU" in out + err
    for target in (TPU, GPU):
        if environment.missing(target):
            code, out, err = run(SCRIPT, f"--target={target.name}")
            assert code == 1 and f'".[{target.extra}]"' in out + err
    path = tmp_path / "earlier.json"
    path.write_text("{}")
    code, out, err = run(SCRIPT, "--target=h100", f"--compare={path}")
    assert code == 1 and "is not what this script writes" in out + err


@pytest.mark.slow
@pytest.mark.parametrize("target", [TPU, GPU], ids=lambda target: target.name)
def test_two_steps_compile_for_a_device_that_is_not_there(run_anew, target, tmp_path):
    words = environment.missing(target)
    if words is not None:
        pytest.skip(words)
    arguments = (
        f"--target={target.name}", "--alterations=rotation,jpeg_compression",
        "--num_images=64", "--num_levels=4", f"--output={tmp_path}",
    )  # fmt: skip
    code, out, err = run_anew(SCRIPT, *arguments, *["--all_devices"][: target is TPU])
    assert code == 0, err
    path = tmp_path / f"{target.name}.json"
    document = json.loads(path.read_text())
    (result,) = document["results"]
    forward, *_, rotation, _, jpeg = result["programs"]
    share = document["devices"]
    assert share == (4 if target is TPU else 1)
    assert forward["flops"] * share == 64 * 4 * MNIST_FLOPS
    for one in (rotation, jpeg):
        assert one["program"] in out
        assert one["flops"] >= forward["flops"]
        assert one["seconds"] > 0 and one["compile_seconds"] > 0
        assert one["collectives"] == one["unknown_loops"] == 0
        assert any("jaxrob/alterations/" in row["line"] for row in one["lines"])
    assert jpeg["seconds"] + jpeg["prepare_seconds"] > forward["seconds"]
    code, out, err = run_anew(SCRIPT, *arguments, f"--compare={path}")
    assert code == 0, err
    assert "mnist_cnn, steps, 28x28x1, 64 x 4, rotation" in out
