"""The costs that `accelerator.py` reads from compiled programs, against hand counts."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerators import compiling, costs, hlo, measured, targets
from accelerators.programs import (
    NETWORKS,
    Mean,
    alterations_by_name,
    further_alterations,
    step,
)
from every_alteration import every_alteration
from jax.sharding import Mesh

from jaxrob import alterations
from jaxrob.alterations._forms import FORMS

PAGE = pathlib.Path(__file__).parents[2] / "docs/measurements/accelerators.md"
TPU, GPU = targets.load("v5e"), targets.load("h100")


def cycles(number):
    return f'backend_config={{"window_config":{{"estimated_cycles":"{number}"}}}}'


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
        (cost(1024), 60e12),
        (cost(1024, ", feature_group_count=2"), 3e12),
    ):
        assert kernel.seconds == pytest.approx(kernel.flops / rate)
    kernel = cost(16)
    moved = 4 * (8 * 36 * 16 + 32 * 9 * 16 + 8 * 36 * 32)
    assert kernel.num_bytes == moved
    assert kernel.seconds == pytest.approx(max(kernel.flops / 60e12, moved / 3.35e12))


@pytest.mark.parametrize(
    ("text", "num_bytes", "is_on_chip"),
    [
        ("f32[100,28]{0,1:T(8,128)S(1)}", 4 * 32 * 128, True),
        ("bf16[100,28,28,1]{0,3,2,1:T(2,128)(2,1)}", 2 * 128 * 2 * 28 * 28, False),
        ("pred[]", 1, False),
    ],
)
def test_arrays_take_the_memory_of_their_layout(text, num_bytes, is_on_chip):
    (array,) = hlo.arrays(text)
    assert (array.num_bytes, array.is_on_chip) == (num_bytes, is_on_chip)


def test_a_compiled_loop_is_counted_by_hand():
    n, turns, inner = 8, 7, 3
    square = jax.ShapeDtypeStruct((n, n), jnp.float32)

    def f(x):
        def once(_, y):
            y = jax.lax.fori_loop(0, inner, lambda _, z: jnp.sin(z @ x), y)
            return y @ x

        return jax.lax.fori_loop(0, turns, once, x)

    cost = costs.cost_of(jax.jit(f).lower(square).compile().as_text(), GPU)
    assert cost.unknown_loops == 0
    assert cost.flops == turns * (inner + 1) * 2 * n**3


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
    assert compiling.seconds(program, compiled.executable) > 0
    np.testing.assert_allclose(compiling.arguments(program)[5], [-0.5, 0.5])


def test_the_page_shows_the_figures_kept():
    table = "\n".join(list(measured.markdown(measured.kept("h100"))))
    assert table in PAGE.read_text(), f"the page's table should be\n{table}"


def test_forms_claim_what_was_measured():
    kept = measured.kept("h100")["programs"]
    times = {f"{one['measured_us']:,}" for one in kept if one["what"] == "alter"}
    claims = [form for form in FORMS if form.figure.startswith("H100")]
    assert len(claims) >= 3
    for form in claims:
        _, figures = form.figure.split(": ")
        assert set(re.findall(r"\d[\d,]*", figures)) <= times, form
