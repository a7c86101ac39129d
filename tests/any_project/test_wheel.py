"""In an environment with nothing but the wheel of this repository and what it needs, its one line is all it takes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

from tests.any_project.kills import wait_until_gone
from tests.any_project.project import Project, without_ours
from tests.any_project.shop import Shop
from tests.any_project.test_stock import PRODUCTS
from tests.any_project.variants import ALONE, SHARED
from tests.crawling import HANGS
from tests.redis_server import RedisServer
from tests.standin import ROOT

pytestmark = pytest.mark.slow

PACKAGES = ("carscraper", "scrapy_durable")
BUILT_FROM = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
EXTRAS = {
    "redis": {"redis", "scrapy-redis"},
    "mongo": {"pymongo"},
    "postgres": {"psycopg[binary]"},
    "parquet": {"pyarrow"},
    "operate": {"apprise", "Jinja2", "prometheus-client"},
}
_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which sees nothing of this checkout."""
    return subprocess.run(
        command, cwd=cwd, env=without_ours(), capture_output=True, text=True, timeout=2 * HANGS
    )


def succeed(*command: str, cwd: Path | None = None) -> str:
    """Run a command that has to succeed, and return what it printed."""
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with the setuptools that is pinned, from a copy: pip leaves `build/` in what it builds from, and takes what
    is left there into the next wheel.
    """
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, source)
    succeed(*_PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(built), str(source))
    (found,) = built.iterdir()
    return found


class Environment:
    """A virtual environment in a directory, with what is installed into it in the versions that are pinned."""

    def __init__(self, directory: Path, *, beside: Environment | None = None) -> None:
        """What is installed `beside` it is there too."""
        succeed(sys.executable, "-m", "venv", "--without-pip", str(directory))
        self.python = str(directory / "bin" / "python")
        self.scrapy = str(directory / "bin" / "scrapy")
        self.packages = Path(
            succeed(self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        )
        self._pins = directory / "pins.txt"
        lines = (ROOT / "requirements.txt").read_text().splitlines()
        self._pins.write_text("\n".join(line.rstrip(" \\") for line in lines if line[:1].isalnum()))
        if beside:
            (self.packages / "beside.pth").write_text(str(beside.packages))

    def install(self, what: str) -> None:
        succeed(*_PIP, "--python", self.python, "install", "--constraint", str(self._pins), what)

    def has(self, module: str) -> bool:
        program = f"import importlib.util as u; print(u.find_spec({module!r}) is not None)"
        return succeed(self.python, "-c", program) == "True\n"


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """With the wheel and nothing that it does not ask for."""
    made = Environment(tmp_path_factory.mktemp("bare"))
    made.install(str(wheel))
    return made


@pytest.fixture(scope="module")
def with_redis(bare: Environment, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """With what the extra adds."""
    made = Environment(tmp_path_factory.mktemp("redis"), beside=bare)
    made.install(f"{wheel}[redis]")
    return made


@pytest.fixture
def stock(bare: Environment, tmp_path: Path) -> Path:
    """What `scrapy startproject` makes there."""
    succeed(bare.scrapy, "startproject", "shop", cwd=tmp_path)
    return tmp_path / "shop"


def kill_once_and_go_on(project: Project, shop: Shop, *, workers: int = 1) -> None:
    """One of them with SIGKILL, while the site holds back what was asked for; then by the same command to the end."""
    shop.gate(30)
    runs = [project.start(worker) for worker in range(workers)]
    assert shop.wait_until_held(lambda: not all(run.running for run in runs)), runs[0].log
    runs[0].kill()
    wait_until_gone(shop, runs[0])
    assert len(project.items()) < PRODUCTS
    shop.gate(None)
    runs[0] = project.start(0)
    assert [run.wait() for run in runs] == [0] * workers, runs[0].log
    assert len(set(project.items())) == PRODUCTS


def test_it_has_every_file_of_both_packages(wheel: Path) -> None:
    """Code, Lua, SQL, the dashboard's templates and what browsers load with its licences, `py.typed`."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    there = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    in_browsers = {".css", ".html", ".js", ".svg", ".md", ".LICENSE"}
    assert {Path(name).suffix for name in there} == {".py", ".lua", ".sql", ".typed"} | in_browsers
    assert {name for name in inside if name.startswith(tuple(f"{package}/" for package in PACKAGES))} == there


def test_it_says_what_each_extra_brings(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        described = message_from_string(archive.read(name).decode())
    brings: dict[str, set[str]] = {extra: set() for extra in described.get_all("Provides-Extra", [])}
    for needed in described.get_all("Requires-Dist", []):
        what, _, extra = needed.partition("; extra == ")
        if extra:
            brings[extra.strip('"')].add(what.partition(">")[0])
    assert brings == EXTRAS


def test_it_brings_what_it_needs_and_no_database(bare: Environment) -> None:
    imports = "import scrapy_durable, carscraper.spiders.cars; print(scrapy_durable.__file__)"
    assert succeed(bare.python, "-c", imports, cwd=bare.packages).startswith(str(bare.packages))
    assert not any(map(bare.has, ("redis", "scrapy_redis", "pymongo", "psycopg", "pyarrow", "pytest")))


def test_a_crawl_without_redis_installed_goes_on_after_a_kill_and_its_queue_can_be_looked_at(
    bare: Environment, stock: Path, shop: Shop, tmp_path: Path
) -> None:
    with Project(
        stock, tmp_path / "killed", "products", shop.urls[0], ALONE.settings, bare.python
    ) as project:
        kill_once_and_go_on(project, shop)
        told = succeed(bare.scrapy, "queue", "status", "--json", cwd=project.path)
        assert '"queued":0' in told.replace(" ", "")


def test_a_crawl_on_redis_with_three_workers_goes_on_after_a_kill(
    with_redis: Environment, stock: Path, shop: Shop, redis_server: RedisServer, tmp_path: Path
) -> None:
    settings = {**SHARED[1].settings, "REDIS_URL": redis_server.url}
    with (
        redis_server.client() as client,
        Project(stock, tmp_path / "killed", "products", shop.urls[0], settings, with_redis.python) as project,
    ):
        client.flushall()
        kill_once_and_go_on(project, shop, workers=SHARED[1].workers)


@pytest.fixture
def one_page(stock: Path) -> Path:
    """The project with the add-on's line, and a spider that needs no site."""
    with (stock / "shop" / "settings.py").open("a") as settings:
        settings.write('ADDONS = {"scrapy_durable.Addon": 500}\n')
    (stock / "shop" / "spiders" / "one.py").write_text(ONE_PAGE)
    return stock


ONE_PAGE = """
import scrapy

class One(scrapy.Spider):
    name = "one"

    async def start(self):
        yield scrapy.Request("data:text/html,<p>here</p>")

    def parse(self, response):
        yield {"text": response.css("p::text").get()}
"""


CRAWLS = [("crawl", "one"), ("runspider", "shop/spiders/one.py")]


@pytest.mark.parametrize("command", CRAWLS)
def test_its_commands_tell_how_a_crawl_has_ended(
    command: tuple[str, str], bare: Environment, one_page: Path
) -> None:
    done = run(bare.scrapy, *command, "-s", "JOBDIR=job", "--nolog", cwd=one_page)
    assert (done.returncode, done.stderr.strip()) == (0, "complete")


@pytest.mark.parametrize("command", [*CRAWLS, ("queue", "status")])
def test_a_redis_without_its_extra_is_refused_in_a_line_that_names_it(
    command: tuple[str, str], bare: Environment, one_page: Path
) -> None:
    address = ("-s", "REDIS_URL=redis://127.0.0.1:1/0")
    done = run(bare.scrapy, *command, *address, "-s", "LOG_LEVEL=ERROR", cwd=one_page)
    assert done.returncode == 2, done.stderr
    (said,) = done.stderr.splitlines()
    assert said.endswith("pip install redis scrapy-redis")


@pytest.mark.parametrize(("setting", "driver"), [("MONGO_URI", "pymongo"), ("POSTGRES_DSN", "psycopg")])
def test_a_database_without_its_extra_is_refused_in_a_line_that_names_the_driver(
    setting: str, driver: str, bare: Environment, tmp_path: Path
) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = carscraper.settings\n")
    done = run(bare.scrapy, "crawl", "cars", "-s", f"{setting}=x://127.0.0.1:1/x", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"{setting}: it needs the package {driver}, which is not installed" in done.stderr
    assert "Traceback" not in done.stderr
