"""Cases of `jaxrob.roma.assess`: counted hits of a user's own perturbation."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import jaxrob
from random_cases import agreement
from random_cases.data import Batches


def darker_or_flipped(key, image):
    """One of four images, by two bits of the key."""
    choices = jnp.stack([image, image * 0.5, image[::-1], 1 - image])
    return choices[jax.random.randint(key, (), 0, 4)]


def flipped(key, image):
    """Always the same image."""
    return image[::-1]


def slow_darker_or_flipped(image):
    return [image, image * 0.5, image[::-1], 1 - image]


def slow_flipped(image):
    return [image[::-1]]


def counted(found, rng, setting):
    """Hits, where the choices leave no chance; otherwise they must be plausible."""
    truth, delta = setting.truth, float(rng.choice([0.3, 0.5, 0.6, 0.9]))
    sampler, choices = darker_or_flipped, slow_darker_or_flipped
    if setting.structure.size % 3 == 0:
        sampler, choices = flipped, slow_flipped
    num_samples = 64
    setting.note("roma", sampler.__name__, f"delta {delta}")
    images = setting.dataset
    images = images.source.images if is_batched(images) else images.images
    result = jaxrob.roma.assess(
        setting.classifier,
        images,
        delta=delta,
        num_samples=num_samples,
        estimator="count",
        perturbation=sampler,
        key=setting.arguments["key"],
        mesh=setting.arguments["mesh"],
    )
    for i, image in enumerate(truth.pixels):
        means = [truth.distribution(one).mean(0) for one in [image, *choices(image)]]
        excluded = int(np.argmax(means[0]))
        best, second = np.sort(means[0])[::-1][:2]
        found.tally["answers"] += 1
        if best - second < agreement.NEAR_TIE:
            continue
        found.equal(result.excluded[i], excluded, f"class of image {i}")
        distinct, unsure = zip(*(hit(mean, excluded, delta) for mean in means[1:]))
        if any(unsure):
            continue
        chance = np.mean(distinct)
        if chance in (0, 1):
            expected = int(chance * num_samples)
            found.equal(result.hits[i], expected, f"hits of image {i}")
        else:
            low, high = stats.binom.ppf([1e-9, 1 - 1e-9], num_samples, chance)
            plausible = low <= result.hits[i] <= high
            found.expect(plausible, f"hits of image {i}", result.hits[i], chance)
    check_counted(found, result, num_samples)


def hit(mean, excluded, delta):
    """Whether an answer is distinctly another class, and whether that is rounding."""
    answered = int(np.argmax(mean))
    best, second = np.sort(mean)[::-1][:2]
    unsure = abs(best - delta) < agreement.CONFIDENCE
    unsure |= best - second < agreement.NEAR_TIE
    return answered != excluded and best >= delta, unsure


def check_counted(found, result, num_samples):
    """The share, and Clopper and Pearson's interval of it."""
    hits = np.asarray(result.hits)
    found.close(result.plr, 1 - hits / num_samples, "plr")
    # 2.5 % on each side; none where there is no hit, or nothing else.
    low = stats.beta.ppf(0.025, hits, num_samples - hits + 1)
    high = stats.beta.ppf(0.975, hits + 1, num_samples - hits)
    ends = 1 - np.where(hits == num_samples, 1, high), 1 - np.where(hits == 0, 0, low)
    found.close(result.confidence_interval, np.stack(ends, 1), "interval of plr", 1e-9)
    found.expect(np.all(result.status == "counted"), "status", result.status)


def is_batched(dataset):
    return isinstance(getattr(dataset, "source", None), Batches)
