package size

import "testing"

func TestSizesAreReadByTheRuleOfTheGlossary(t *testing.T) {
	for text, want := range map[string]int64{
		"1048576": 1 << 20, "0": 0, "7b": 7, "2T": 2 << 40, "2TiB": 2 << 40, "2 tib": 2 << 40, "1TB": 1e12, "1.5GiB": 3 << 29,
		"10Gi": 10 << 30, " 4 KiB ": 4096, "0.5K": 512,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "1.0001K", "-1", "1/2G", "2XB", "9000PiB", "1e6", "1..2"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}

func TestASizeIsPrintedExactly(t *testing.T) {
	for _, bytes := range []int64{0, 1, 4096, 1 << 20, 1536 << 30, 1e12, 3<<40 + 1} {
		if back, err := Parse(Format(bytes)); err != nil || back != bytes {
			t.Errorf("%d is printed as %s", bytes, Format(bytes))
		}
	}
	if Format(1536<<30) != "1536GiB" || Format(1e6) != "1000000B" {
		t.Error(Format(1536<<30), Format(1e6))
	}
}
