package admission

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLinesBeyondTheLimitAreCounted(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(Log(slog.NewTextHandler(&out, nil)))
	now := time.Now()
	log.Handler().(*lines).budget.now = func() time.Time { return now }
	for range 10_000 {
		log.With("client", "a").Info("refused")
	}
	if count := strings.Count(out.String(), "refused"); count != maxLines {
		t.Error(count)
	}
	out.Reset()
	now = now.Add(time.Second)
	for range 100 {
		log.Info("refused")
	}
	if count := strings.Count(out.String(), "refused"); count != linesPerSecond || !strings.Contains(out.String(), "omitted=9900") {
		t.Error(count, out.String())
	}
}
