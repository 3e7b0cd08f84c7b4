"""Runs nvme-cli's own tests, which are made for PCIe, against a controller over TCP: nvme_cli.py CONTROLLER NAMESPACE, in a folder
with `tests`. The tests are as they come; what differs is named here."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

# Tests of what the array does not have, with the reason.
LEFT_OUT = {
    "nvme_attach_detach_ns_test": "namespace management: volumes are created by the array's own API",
    "nvme_create_max_ns_test": "namespace management",
    "nvme_format_test": "Format NVM, and namespace management",
    "nvme_get_lba_status_test": "Get LBA Status is optional, and not supported",
    "nvme_lba_status_log_test": "its log page is optional, and not supported",
    "nvme_writeuncor_test": "Write Uncorrectable is optional, and not supported",
    "nvme_simple_template_test": "a template without a command",
}
# Features that only PCIe controllers have: interrupt coalescing and vectors (Base 2.0 figure 387).
PCIE_FEATURES = {"0x08", "0x09"}


def over_tcp(test):
    """In the place of the check that the controller is on PCIe."""
    controller = test.ctrl.split("/")[-1]
    test.assertEqual(Path(f"/sys/class/nvme/{controller}/transport").read_text().strip(), "tcp")


def smart_log(test, nsid):
    """In the place of one that looks for the fields by names that the program prints no more."""
    command = ["nvme", "smart-log", test.ctrl, "--namespace-id", str(nsid), "--output-format", "json"]
    shown = subprocess.run(command, stdout=subprocess.PIPE)
    test.assertEqual(shown.returncode, 0)
    log = json.loads(shown.stdout)
    for field in ["data_units_read", "data_units_written", "host_read_commands", "host_write_commands"]:
        test.assertGreater(int(log[field]), 0, field)
    return shown.returncode


def after_set_up(tests, change):
    set_up = tests.setUp

    def changed(test):
        set_up(test)
        change(test)

    tests.setUp = changed


def main(controller, namespace):
    config = {"controller": controller, "ns1": namespace, "log_dir": "/tmp/nvmetests/"}
    Path("tests/config.json").write_text(json.dumps(config))
    sys.path.insert(0, "tests")
    import nvme_compare_test
    import nvme_get_features_test
    from nvme_test import TestNVMe

    TestNVMe.validate_pci_device = over_tcp
    TestNVMe.get_smart_log = smart_log

    def without_pcie(test):
        test.feature_id_list = [it for it in test.feature_id_list if it not in PCIE_FEATURES]

    def one_block(test):
        # It writes one block with a buffer of two. Whether a controller accepts a longer SGL is optional (SGLS bit 18 of
        # Identify Controller), and the array does not.
        test.data_size = 512

    after_set_up(nvme_get_features_test.TestNVMeGetMandatoryFeatures, without_pcie)
    after_set_up(nvme_compare_test.TestNVMeCompareCmd, one_block)
    # The tests put logs in the place of both.
    out, err = sys.stdout, sys.stderr
    failed = []
    for module in sorted(path.stem for path in Path("tests").glob("nvme_*_test.py")):
        if module in LEFT_OUT:
            print(f"left out  {module}: {LEFT_OUT[module]}", file=out)
            continue
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromName(module).run(result)
        sys.stdout, sys.stderr = out, err
        bad = result.failures + result.errors
        print(f"{'FAILED' if bad or not result.testsRun else 'passed':<8}  {module}", file=out, flush=True)
        for _, why in bad:
            print(why, file=out)
        if bad or not result.testsRun:
            failed.append(module)
    absent = [name for name in LEFT_OUT if not Path(f"tests/{name}.py").exists()]
    sys.exit(f"failed: {failed}, unknown: {absent}" if failed or absent else 0)


main(*sys.argv[1:])
