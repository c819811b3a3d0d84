"""Records of the papers behind flows and laws, and `cite`, which returns BibTeX entries."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from linsolve.core.arguments import shown, unknown_name
from linsolve.core.version import VERSION

__all__ = ["REFERENCES", "Reference", "cite", "solved", "sources"]


@dataclasses.dataclass(frozen=True)
class Reference:
    """A paper; unknown fields are empty.

    Parameters
    ----------
    key : str
        BibTeX key.
    kind : str
        BibTeX entry type.
    authors : tuple of str
        Names as "Family, Given", or family names alone.
    title : str
    year : int
    known_as : str
        Words that cite the paper in docstrings.
    where : tuple of (str, str)
        Further BibTeX fields.
    edition : str
        Version of the text whose formulas are on record.
    """

    key: str
    kind: str
    authors: tuple[str, ...]
    title: str
    year: int
    known_as: str
    where: tuple[tuple[str, str], ...] = ()
    edition: str = ""

    def bibtex(self) -> str:
        """Return the BibTeX entry."""
        fields = {"author": " and ".join(self.authors), "title": f"{{{self.title}}}", "year": str(self.year)}
        rows = (f"  {name} = {{{value}}}" for name, value in (fields | dict(self.where)).items())
        return f"@{self.kind}{{{self.key},\n" + ",\n".join(rows) + "\n}"

    def __str__(self) -> str:
        """Return the reference as a line of text."""
        authors = ", ".join(" ".join(reversed(name.split(", "))) for name in self.authors)
        parts = dict(self.where)
        names = {"eprint": f"arXiv:{parts.get('eprint')}", "volume": f"volume {parts.get('volume')}"}
        shown = ("journal", "booktitle", "school", "volume", "eprint")
        where = ", ".join(names.get(name, parts[name]) for name in shown if name in parts)
        text = f'{authors}, "{self.title}"{", " + where if where else ""} ({self.year})'
        for accented, letter in _LETTERS.items():
            text = text.replace(accented, letter)
        return text


_LETTERS = {"{\\'e}": "é", '{\\"a}': "ä", '{\\"u}': "ü"}


def _arxiv(number: str) -> tuple[tuple[str, str], ...]:
    return ("eprint", number), ("archiveprefix", "arXiv")


_NEURIPS = "Advances in Neural Information Processing Systems"
_RECORDS = (
    Reference(
        "saxe_2014", "inproceedings", ("Saxe, Andrew M.", "McClelland, James L.", "Ganguli, Surya"),
        "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks", 2014,
        "Saxe, McClelland",
        (("booktitle", "International Conference on Learning Representations"), *_arxiv("1312.6120")),
    ),
    Reference(
        "fukumizu_1998", "inproceedings", ("Fukumizu, Kenji",),
        "Effect of batch learning in multilayer neural networks", 1998, "Fukumizu",
        (("booktitle", "International Conference on Neural Information Processing"),),
    ),
    Reference(
        "braun_2022", "inproceedings",
        ("Braun, Lukas", "Domin{\\'e}, Cl{\\'e}mentine", "Fitzgerald, James", "Saxe, Andrew"),
        "Exact learning dynamics of deep linear networks with prior knowledge", 2022, "Braun",
        (("booktitle", _NEURIPS), ("volume", "35"), ("pages", "6615--6629")),
    ),
    Reference(
        "domine_2024", "misc",
        ("Domin{\\'e}, Cl{\\'e}mentine C. J.", "Anguita, Nicolas", "Proca, Alexandra M.", "Braun, Lukas",
         "Kunin, Daniel", "Mediano, Pedro A. M.", "Saxe, Andrew M."),
        "From lazy to rich: Exact learning dynamics in deep linear networks", 2024, "Domine et al.",
        _arxiv("2409.14623"),
    ),
    Reference(
        "xu_ziyin_2024", "misc", ("Xu, Yizhou", "Ziyin, Liu"),
        "Three Mechanisms of Feature Learning in the Exact Solution of a Latent Variable Model", 2024, "Xu and Ziyin",
        _arxiv("2401.07085"), "arXiv:2401.07085, version dated May 7, 2024",
    ),
    Reference(
        "atanasov_2022", "inproceedings", ("Atanasov, Alexander", "Bordelon, Blake", "Pehlevan, Cengiz"),
        "Neural networks as kernel learners: The silent alignment effect", 2022, "Atanasov",
        (("booktitle", "International Conference on Learning Representations"), *_arxiv("2111.00034")),
        "arXiv:2111.00034, version with appendices A to I; its text carries no date",
    ),
    Reference(
        "geiger_2020", "article", ("Geiger, Mario", "Spigler, Stefano", "Jacot, Arthur", "Wyart, Matthieu"),
        "Disentangling feature and lazy training in deep neural networks", 2020, "Geiger",
        (("journal", "Journal of Statistical Mechanics: Theory and Experiment"), ("volume", "2020"), ("number", "11"),
         ("pages", "113301"), *_arxiv("1906.08034")),
        "arXiv:1906.08034, text dated December 21, 2024 on its first page, appendices A to J",
    ),
    Reference(
        "ortiz_jimenez_2021", "inproceedings",
        ("Ortiz-Jim{\\'e}nez, Guillermo", "Moosavi-Dezfooli, Seyed-Mohsen", "Frossard, Pascal"),
        "What can linearized neural networks actually say about generalization?", 2021, "Ortiz-Jimenez",
        (("booktitle", _NEURIPS), ("volume", "34"), *_arxiv("2106.06770")),
        "arXiv:2106.06770, version with appendices A to E; its text carries no date",
    ),
    Reference(
        "seleznova_2023", "inproceedings",
        ("Seleznova, Mariia", "Weitzner, Dana", "Giryes, Raja", "Kutyniok, Gitta", "Chou, Hung-Hsu"),
        "Neural (Tangent Kernel) Collapse", 2023, "Seleznova, Weitzner", (("booktitle", _NEURIPS), ("volume", "36")),
    ),
    Reference(
        "seleznova_2024", "phdthesis", ("Seleznova, Mariia",),
        "Analyzing Training Dynamics of Deep Neural Networks: "
        "Insights and Limitations of the Neural Tangent Kernel Regime",
        2024, "Seleznova", (("school", "Ludwig-Maximilians-Universit{\\\"a}t M{\\\"u}nchen"),),
        "dissertation, May 2024 (submitted 27.05.2024); sections 3.1 to 3.3 reprint three papers with sections and "
        "equation numbers of their own",
    ),
    Reference(
        "bordelon_2022", "inproceedings", ("Bordelon, Blake", "Pehlevan, Cengiz"),
        "Learning Curves for SGD on Structured Features", 2022, "Bordelon and Pehlevan",
        (("booktitle", "International Conference on Learning Representations"), *_arxiv("2106.02713")),
    ),
    Reference(
        "advani_2020", "article", ("Advani, Madhu S.", "Saxe, Andrew M.", "Sompolinsky, Haim"),
        "High-dimensional dynamics of generalization error in neural networks", 2020,
        "Advani, Saxe and Sompolinsky", (("journal", "Neural Networks"), ("volume", "132"), *_arxiv("1710.03667")),
    ),
    Reference(
        "levi_2024", "inproceedings", ("Levi, Noam", "Beck, Alon", "Bar-Sinai, Yohai"),
        "Grokking in Linear Estimators: A Solvable Model that Groks without Understanding", 2024,
        "Levi, Beck and Bar-Sinai",
        (("booktitle", "International Conference on Learning Representations"), *_arxiv("2310.16441")),
    ),
    Reference(
        "velikanov_2024", "inproceedings", ("Velikanov, Maksim", "Panov, Maxim", "Yarotsky, Dmitry"),
        "Generalization error of spectral algorithms", 2024, "Velikanov, Panov and Yarotsky",
        (("booktitle", "International Conference on Learning Representations"), *_arxiv("2403.11696")),
    ),
    Reference(
        "lampinen_2019", "inproceedings", ("Lampinen, Andrew K.", "Ganguli, Surya"),
        "An analytic theory of generalization dynamics and transfer learning in deep linear networks", 2019,
        "Lampinen and Ganguli",
        (("booktitle", "International Conference on Learning Representations"), *_arxiv("1809.10374")),
    ),
    Reference(
        "zhang_2025", "inproceedings",
        ("Zhang, Yedi", "Singh, Aaditya K.", "Latham, Peter E.", "Saxe, Andrew M."),
        "Training Dynamics of In-Context Learning in Linear Attention", 2025, "Zhang, Singh, Latham and Saxe",
        (("booktitle", "International Conference on Machine Learning"), ("volume", "267"), ("pages", "76047--76087"),
         *_arxiv("2501.16265")),
    ),
    Reference(
        "zhang_2025_relu", "article", ("Zhang, Yedi", "Saxe, Andrew", "Latham, Peter E."),
        "When Are Bias-Free ReLU Networks Effectively Linear Networks?", 2025, "Zhang, Saxe and Latham",
        (("journal", "Transactions on Machine Learning Research"), *_arxiv("2406.12615")),
    ),
    Reference(
        "arora_2018", "inproceedings", ("Arora, Sanjeev", "Cohen, Nadav", "Hazan, Elad"),
        "On the Optimization of Deep Networks: Implicit Acceleration by Overparameterization", 2018,
        "Arora, Cohen, Hazan",
        (("booktitle", "International Conference on Machine Learning"), ("volume", "80"), *_arxiv("1802.06509")),
    ),
    Reference(
        "shan_2021", "misc", ("Shan, Haozhe", "Bordelon, Blake"),
        "A Theory of Neural Tangent Kernel Alignment and Its Influence on Training", 2021, "Shan and Bordelon",
        _arxiv("2105.14301"),
    ),
    Reference(
        "hu_2022", "inproceedings",
        ("Hu, Edward J.", "Shen, Yelong", "Wallis, Phillip", "Allen-Zhu, Zeyuan", "Li, Yuanzhi", "Wang, Shean",
         "Wang, Lu", "Chen, Weizhu"),
        "LoRA: Low-Rank Adaptation of Large Language Models", 2022, "Hu, Shen",
        (("booktitle", "International Conference on Learning Representations"), *_arxiv("2106.09685")),
    ),
    Reference(
        "hayou_2024", "inproceedings", ("Hayou, Soufiane", "Ghosh, Nikhil", "Yu, Bin"),
        "LoRA+: Efficient Low Rank Adaptation of Large Models", 2024, "Hayou",
        (("booktitle", "International Conference on Machine Learning"), *_arxiv("2402.12354")),
    ),
    Reference(
        "saxe_2022", "inproceedings", ("Saxe, Andrew", "Sodhani, Shagun", "Lewallen, Sam Jay"),
        "The Neural Race Reduction: Dynamics of Abstraction in Gated Networks", 2022, "Saxe, Sodhani, Lewallen",
        (("booktitle", "International Conference on Machine Learning"), ("volume", "162"), *_arxiv("2207.10430")),
    ),
    Reference(
        "zhang_2024", "inproceedings", ("Zhang, Yedi", "Latham, Peter E.", "Saxe, Andrew"),
        "Understanding Unimodal Bias in Multimodal Deep Linear Networks", 2024, "Zhang, Latham, Saxe",
        (("booktitle", "International Conference on Machine Learning"), ("volume", "235"), *_arxiv("2312.00935")),
    ),
)  # fmt: skip

REFERENCES = {record.key: record for record in _RECORDS}

# papers of classes whose sources are cited in the docstring of the module
_ALSO = {
    "NTKMoments": ("seleznova_2024",),
    "NTKDispersionLimit": ("seleznova_2024",),
    "NTKDispersionCrossover": ("seleznova_2024",),
    "NTKFirstStep": ("seleznova_2024",),
    "NTKFirstStepLimit": ("seleznova_2024",),
    "RefinedMatchedSolution": ("atanasov_2022",),
}


def solved(who: str, item: Any) -> Any:
    """Return the class of a flow or law given by its name, its class or an instance.

    Raises
    ------
    ValueError
        If there is no flow or law of that name.
    TypeError
        If the argument is neither.
    """
    from linsolve.core.flow import Flow
    from linsolve.core.law import Law
    from linsolve.systems import flows, laws

    if isinstance(item, str):
        for registry in (flows, laws):
            if item in registry.WHERE:
                return getattr(registry, item)
        raise ValueError(unknown_name(who, "flow or law", item, [*flows.WHERE, *laws.WHERE]))
    cls = item if isinstance(item, type) else type(item)
    if not issubclass(cls, Flow | Law) or cls.__module__ in (
        Flow.__module__,
        Law.__module__,
    ):  # no bases
        raise TypeError(
            f"{who}: {shown(item)} is not a flow or a law; pass one, its class or its name, such as 'TwoLayer'"
        )
    return cls


def sources(item: Any) -> tuple[Reference, ...]:
    """Return the papers cited in the docstring of a flow or law.

    Examples
    --------
    >>> from linsolve.papers.references import sources
    >>> [each.key for each in sources("TwoLayer")]
    ['xu_ziyin_2024']
    """
    return _sources("sources", item)


def _sources(who: str, item: Any) -> tuple[Reference, ...]:
    cls = solved(who, item)
    text, also = " ".join((inspect.getdoc(cls) or "").split()), _ALSO.get(cls.__name__, ())
    return tuple(record for record in _RECORDS if record.known_as in text or record.key in also)


def _package() -> str:
    version = VERSION
    fields = {
        "author": "{The linsolve developers}",
        "title": "{linsolve: exact training dynamics of solvable linear networks}",
        "year": "2026",
        "version": version,
    }
    rows = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@software{{linsolve,\n{rows}\n}}"


def cite(*items: Any) -> str:
    """Return BibTeX of the theory behind flows and laws, and of this package.

    Parameters
    ----------
    *items : Flow, Law, class or str
        Flows and laws, their classes or names; without items, the package alone.

    Returns
    -------
    str
        Entries, each paper once, the package last. Unknown fields are omitted.

    Raises
    ------
    ValueError
        If there is no flow or law of that name.
    TypeError
        If an argument is neither a flow nor a law.

    Examples
    --------
    >>> import linsolve as ls
    >>> print(ls.cite("HiddenMode").splitlines()[0])
    @inproceedings{saxe_2014,
    """
    found = {record.key: record for item in items for record in _sources("cite", item)}
    return "\n\n".join([*(record.bibtex() for record in found.values()), _package()])
