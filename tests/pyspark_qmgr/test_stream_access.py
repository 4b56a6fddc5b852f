"""A stream of Spark that logs in over TLS, and whose password appears nowhere."""

import io
import os
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from qmgr_client.blocking import connect
from tests.pyspark_qmgr.test_stream_spark import drained
from tests.secured import PASSWORD, secured

pytestmark = [pytest.mark.spark, pytest.mark.process]


def test_stream_logs_in_over_tls_and_shows_no_password(spark: SparkSession, tmp_path: Path) -> None:
    with secured(tmp_path) as manager:
        with connect(manager.unix) as client:
            client.admin.queue_create("Q", accounting="on")
            client.put("Q", b"x")
        stream = (
            spark.readStream.format("qmgr")
            .option("url", manager.tls)
            .option("cursor", "lake")
            .option("user", "lake")
            .option("passwordFile", manager.password_file)
            .option("caFile", manager.certificates.ca)
        )
        history, out = stream.load(), tmp_path / "out"
        assert sum(drained(history, out).values()) == 1
        with redirect_stdout(io.StringIO()) as plan:
            history.explain(True)
        with pytest.raises(Exception, match="option password: the plans") as caught:
            stream.option("password", PASSWORD).load()
        log = manager.log.read_text()
    files = [Path(at, name) for at, _, names in os.walk(out) for name in names]
    assert any("checkpoint" in str(path) for path in files)
    written = "".join(path.read_bytes().decode("latin-1") for path in files)
    for text in (plan.getvalue(), str(caught.value), log, written):
        assert PASSWORD not in text
