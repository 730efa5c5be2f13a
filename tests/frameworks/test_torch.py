"""torch modules: answers, gradients, identity, and what is refused."""

import dataclasses
import fractions
import functools
import os
import re
import subprocess
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations

torch = pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")
nn = torch.nn

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (24, 8, 8, 3), dtype=np.uint8)
DATA = jaxrob.Dataset(IMAGES, RANDOM.integers(0, 4, 24), name="random")
KEY = jax.random.key(0)
BLUR = alterations.gaussian_blur(0.0, 2.0)

# Deprecated, and what users still have.
of_torch_jit = pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated")


def module(*last, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.BatchNorm2d(6),
        nn.Tanh(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(6 * 36, 4),
        *last,
    )


def evaluated(classifier, levels=(0.5,)):
    if isinstance(classifier, nn.Module):
        classifier = jaxrob.Classifier.from_torch(classifier)
    return jaxrob.evaluate(classifier, DATA, BLUR, levels)


def altered(level):
    alter = jax.vmap(lambda image: BLUR(jnp.float32(image) / 255, level, KEY))
    return np.moveaxis(np.asarray(alter(IMAGES)), -1, 1)


def test_answers_are_those_of_the_module():
    net = module().eval()
    curve = evaluated(net, [0.0, 1.5])
    for row, level in enumerate([0.0, 1.5]):
        with torch.no_grad():
            truth = net(torch.from_numpy(altered(level).copy())).softmax(-1).numpy()
        np.testing.assert_array_equal(curve.predicted[row], truth.argmax(1))
        np.testing.assert_allclose(curve.confidence[row], truth.max(1), atol=1e-5)


def test_the_module_is_left_in_its_mode_and_the_classifier_is_a_snapshot():
    net = module()
    classifier = jaxrob.Classifier.from_torch(net)
    before = evaluated(classifier)
    assert net.training and all(p.requires_grad for p in net.parameters())
    torch.nn.init.zeros_(net[-1].weight)
    with torch.autocast("cpu", torch.bfloat16):
        after = evaluated(classifier)
    np.testing.assert_array_equal(before.confidence, after.confidence)


def test_gradients_are_finite_differences(check_gradients):
    check_gradients(jaxrob.Classifier.from_torch(module().double()), IMAGES[:3])


def test_gradients_under_vmap_go_to_torch_together():
    classifier = jaxrob.Classifier.from_torch(module())
    x = jnp.float32(IMAGES[:5]) / 255

    def loss(image):
        return classifier.log_probabilities(image[None])[0, 0, 1]

    each = jax.vmap(jax.grad(loss))(x)
    whole = jax.grad(lambda x: classifier.log_probabilities(x)[0, :, 1].sum())(x)
    np.testing.assert_allclose(each, whole, atol=1e-6)


def test_outputs_are_read_from_the_last_layer():
    layers = nn.Softmax(-1), nn.Sigmoid(), nn.LogSoftmax(-1)
    found = [jaxrob.Classifier.from_torch(module(last)).outputs for last in layers]
    assert found == ["probabilities", "sigmoid", "logits"]


class Hidden(nn.Module):
    """A softmax that is no layer."""

    def __init__(self):
        super().__init__()
        self.net = module()

    def forward(self, images):
        return self.net(images).softmax(-1)


def test_the_last_layer_only_says_the_default():
    """A softmax for predictions may come last among the layers, and not be called."""
    net = module()
    net.register_forward_hook(lambda net, given, outputs: outputs.log())
    net.append(nn.Softmax(-1))
    default = jaxrob.Classifier.from_torch(net)
    assert default.outputs == "probabilities"
    with pytest.raises(ValueError, match='say outputs="logits"'):
        evaluated(default, [0.0])
    found = evaluated(jaxrob.Classifier.from_torch(net, "logits"), [0.0])
    plain = evaluated(module(), [0.0])
    np.testing.assert_allclose(found.confidence, plain.confidence, atol=1e-6)


def test_outputs_that_contradict_the_last_operation():
    classifier = jaxrob.Classifier.from_torch(Hidden())
    declared = jaxrob.Classifier.from_torch(module(nn.Softmax(-1)), "logits")
    for one in (classifier, declared):
        with pytest.raises(ValueError, match='pass outputs="probabilities"'):
            jaxrob.assess(one, DATA, BLUR)
    evaluated(jaxrob.Classifier.from_torch(Hidden(), "probabilities"))


class InPlace(nn.Module):
    """Its first operation writes to the images."""

    def forward(self, images):
        return images.sub_(0.5).flatten(1)[:, :4]


def test_modules_that_write_to_their_images():
    classifier = jaxrob.Classifier.from_torch(InPlace())
    curve = evaluated(classifier, [0.0])
    truth = np.moveaxis(IMAGES, -1, 1).reshape(len(IMAGES), -1)[:, :4]
    np.testing.assert_array_equal(curve.predicted[0], truth.argmax(1))
    x = jnp.float32(IMAGES[:2]) / 255
    gradient = jax.grad(lambda x: classifier.raw_outputs(x)[0, :, 1].sum())(x)
    assert gradient[:, 0, 1, 0].tolist() == [1, 1] and gradient.sum() == 2


@of_torch_jit
@pytest.mark.parametrize(
    "wrap",
    [
        lambda net: torch.jit.trace(net, torch.zeros(2, 3, 8, 8)),
        torch.fx.symbolic_trace,
        lambda net: torch.export.export(
            net,
            (torch.zeros(2, 3, 8, 8),),
            dynamic_shapes=({0: torch.export.Dim("batch")},),
        ).module(),
        lambda net: net.bfloat16(),
        lambda net: net.double(),
    ],
    ids=["traced", "fx", "exported", "bfloat16", "float64"],
)
def test_modules_of_every_kind(wrap):
    plain = evaluated(module())
    found = evaluated(jaxrob.Classifier.from_torch(wrap(module().eval())))
    np.testing.assert_allclose(found.confidence, plain.confidence, atol=0.02)


class Keeping(Hidden):
    """Keeps features, and ends with a convolution."""

    def forward(self, images):
        self.kept = self.net(images)
        return self.kept[..., None, None]


def test_features_kept_of_a_forward_pass_and_outputs_of_a_convolution():
    net = Keeping()
    net(torch.zeros(2, 3, 8, 8))
    classifier = jaxrob.Classifier.from_torch(net)
    found = evaluated(classifier)
    np.testing.assert_array_equal(found.predicted, evaluated(net.net).predicted)
    x = jnp.float32(IMAGES[:2]) / 255

    def gradient(one):
        return jax.grad(lambda x: one.raw_outputs(x)[0, :, 1].sum())(x)

    plain = jaxrob.Classifier.from_torch(net.net)
    np.testing.assert_array_equal(gradient(classifier), gradient(plain))


def test_a_batch_that_an_export_fixed():
    net = torch.export.export(module().eval(), (torch.zeros(4, 3, 8, 8),)).module()
    found = evaluated(net)
    np.testing.assert_array_equal(found.predicted, evaluated(module()).predicted)


class Cut(Hidden):
    def forward(self, images):
        with torch.no_grad():
            return self.net(images)


def test_a_gradient_that_the_module_cuts_off():
    classifier = jaxrob.Classifier.from_torch(Cut())
    labels = evaluated(classifier, [0.0]).predicted[0]
    with pytest.raises(ValueError, match="the torch module cuts its gradient off"):
        jaxrob.adversarial.pgd(classifier, IMAGES, labels, epsilon=0.1)


class Two(Hidden):
    def forward(self, images):
        return {"first": self.net(images), "second": images.flatten(1)}


@pytest.mark.parametrize(
    "net, given, message",
    [
        (Two(), None, r"\['first'\] of the shape \(2, 4\), \['second'\] of the shape"),
        (module(), jaxrob.Preprocessing(channels_first=False), "on images.*3 channels"),
    ],
)
def test_modules_that_do_not_fit(net, given, message):
    classifier = jaxrob.Classifier.from_torch(net, preprocessing=given)
    with pytest.raises(ValueError, match=message):
        jaxrob.assess(classifier, DATA, BLUR)


class Held(nn.Module):
    """Parts that are no parameters, buffers or modules."""

    def __init__(self, activation=torch.tanh, mean=0.1, settings=(1, 2)):
        super().__init__()
        self.net, self.activation = module(), activation
        self.mean = torch.tensor([mean])
        self.settings = {"kinds": list(settings), "names": frozenset({"a", "b", "c"})}

    def forward(self, images):
        return self.activation(self.net(images - self.mean)) * self.settings["kinds"][1]


@dataclasses.dataclass(slots=True)
class Slotted:
    number: float

    def times(self, value):
        return self.number * value


class Noted(Slotted):
    """A decorator of a class, which holds more than the function that it wraps."""


HELD = (np.float32(3), np.float32(4), fractions.Fraction(1, 3), fractions.Fraction(2))
HELD += (Slotted(1.0), Slotted(2.0), Slotted(1.0).times, Slotted(2.0).times)
HELD += tuple(jnp.bfloat16(n) for n in (3, 4))
HELD += tuple(type("Further", (Slotted,), {})(n) for n in (3, 4))
HELD += tuple(type("Settings", (), {"gain": n}) for n in (3, 4))
HELD += tuple(np.ma.array([1, 2], mask=[n, 1]) for n in (0, 1))
HELD += tuple(functools.cache(Slotted(n).times) for n in (3, 4))
HELD += (nn.Linear(1, 4), nn.Linear(1, 5))  # In a list they are not registered.
HELD += tuple(nn.Linear(1, n).forward for n in (2, 3))
HELD += tuple(functools.reduce(lambda held, _: [held], range(40), n) for n in (3, 4))
HELD += tuple(map(re.compile, "ab"))
HELD += tuple(functools.update_wrapper(Noted(n), torch.tanh) for n in (3, 4))
for number in (3, 4):
    HELD += (type("Listed", (list,), {})("ab"),)
    HELD[-1].number = number


def hooked():
    net = Held()
    net.register_forward_hook(lambda net, images, outputs: 2 * outputs)
    return net


def frozen(slope):
    return torch.jit.freeze(torch.jit.script(module(nn.PReLU(init=slope)).eval()))


def version(net):
    classifier = jaxrob.Classifier.from_torch(net, "logits")
    return jaxrob.provenance(classifier, DATA)["network"]["version"]


@of_torch_jit
def test_whatever_a_module_holds_tells_it_apart():
    kinds = [
        Held,
        lambda: Held(torch.relu),
        lambda: Held(lambda x: 2 * x),
        lambda: Held(lambda x: 3 * x),
        lambda: Held(mean=0.2),
        lambda: Held(settings=(1, 3)),
        *(functools.partial(Held, settings=(one, 2)) for one in HELD),
        *(type("Gained", (Held,), {"gains": {"red": n}}) for n in (2, 3)),
        hooked,
        type("Times", (Hidden,), {"forward": lambda net, images: 2 * net.net(images)}),
        type("Times", (Hidden,), {"forward": lambda net, images: 3 * net.net(images)}),
        lambda: torch.fx.symbolic_trace(module()),
        lambda: torch.fx.symbolic_trace(module(nn.Tanh())),
        lambda: torch.jit.trace(module().eval(), torch.zeros(2, 3, 8, 8)),
        lambda: torch.jit.trace(module(nn.Tanh()).eval(), torch.zeros(2, 3, 8, 8)),
        *(functools.partial(frozen, slope) for slope in (0.1, 0.2)),
    ]
    first, again = ([version(make()) for make in kinds] for _ in range(2))
    assert first == again
    assert len(set(first)) == len(kinds)
    assert version(Held(settings=(weakref.ref(Held), 2))) is None  # Nobody can know.


VERSION = """
import sys; sys.path.insert(0, {folder!r})
import test_torch
print(test_torch.version(test_torch.Held()))
"""


def test_a_module_has_its_version_in_every_process():
    code = VERSION.format(folder=os.path.dirname(__file__))
    # Modules are found where they are here.
    path = os.pathsep.join(filter(None, sys.path))
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split()[-1] == version(Held())


@pytest.mark.parametrize(
    "net, error, message",
    [
        (print, TypeError, "module must be a torch.nn.Module"),
        (nn.Sequential(nn.LazyLinear(4)), ValueError, "'0.weight' has no values"),
        (nn.Linear(4, 4, device="meta"), ValueError, "'weight' has no values"),
    ],
)
def test_what_is_refused(net, error, message):
    with pytest.raises(error, match=message):
        jaxrob.Classifier.from_torch(net)
