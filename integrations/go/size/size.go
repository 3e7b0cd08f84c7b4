// Package size reads and prints sizes by the one rule of the array's command line and web interface (docs/glossary.md,
// Sizes): binary units with their IEC names, SI units, and single letters as binary units.
package size

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// units are the factors in bytes, by lower-case name.
var units = map[string]int64{
	"": 1, "b": 1,
	"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50,
	"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40, "pi": 1 << 50,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "pib": 1 << 50,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15,
}

// names are the binary units from the largest.
var names = []string{"PiB", "TiB", "GiB", "MiB", "KiB"}

// Parse returns the bytes that a text such as `2TiB`, `1.5 GiB`, `500GB` or `1048576` stands for. `Gi` is the same as
// `GiB`, as Kubernetes writes it.
func Parse(text string) (int64, error) {
	trimmed := strings.TrimSpace(text)
	end := strings.IndexFunc(trimmed, func(letter rune) bool { return (letter < '0' || letter > '9') && letter != '.' })
	if end < 0 {
		end = len(trimmed)
	}
	factor, known := units[strings.ToLower(strings.TrimSpace(trimmed[end:]))]
	number, ok := new(big.Rat).SetString(trimmed[:end])
	if !known || !ok || strings.Contains(trimmed[:end], "/") {
		return 0, fmt.Errorf("%q is not a size: write bytes, or a number with a unit, such as 500GiB, 2TiB or 1TB", text)
	}
	bytes := number.Mul(number, new(big.Rat).SetInt64(factor))
	if !bytes.IsInt() || !bytes.Num().IsInt64() {
		return 0, fmt.Errorf("%q is no whole number of bytes below 8 EiB", text)
	}
	return bytes.Num().Int64(), nil
}

// Format returns the shortest text with a binary unit that is exactly this many bytes: `1536GiB`, `1000000B`.
func Format(bytes int64) string {
	for at, name := range names {
		factor := int64(1) << (10 * (len(names) - at))
		if bytes >= factor && bytes%factor == 0 {
			return strconv.FormatInt(bytes/factor, 10) + name
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}

// RoundUp returns the next multiple of a unit, or the largest one that there is.
func RoundUp(bytes, unit int64) int64 {
	if bytes > math.MaxInt64-unit {
		return math.MaxInt64 / unit * unit
	}
	return (bytes + unit - 1) / unit * unit
}
