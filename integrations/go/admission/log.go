package admission

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxLines are logged at once, and linesPerSecond after that.
	maxLines       = 100
	linesPerSecond = 5
)

// Log returns a handler that logs no more lines than an operator can read: clients cause a line with each refused request. The
// next line says how many were left out.
func Log(of slog.Handler) slog.Handler {
	return &lines{of, &budget{left: maxLines, at: time.Now(), now: time.Now}}
}

type lines struct {
	slog.Handler
	budget *budget
}

type budget struct {
	mutex sync.Mutex
	left  float64
	at    time.Time
	now   func() time.Time
	// omitted lines since the last one that was logged.
	omitted int
}

// take reports whether a line may be logged, and how many were left out before it.
func (b *budget) take() (bool, int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now := b.now()
	b.left = min(maxLines, b.left+linesPerSecond*now.Sub(b.at).Seconds())
	b.at = now
	if b.left < 1 {
		b.omitted++
		return false, 0
	}
	omitted := b.omitted
	b.left, b.omitted = b.left-1, 0
	return true, omitted
}

func (l *lines) Handle(ctx context.Context, record slog.Record) error {
	taken, omitted := l.budget.take()
	if !taken {
		return nil
	}
	if omitted > 0 {
		record = record.Clone()
		record.AddAttrs(slog.Int("omitted", omitted))
	}
	return l.Handler.Handle(ctx, record)
}

func (l *lines) WithAttrs(more []slog.Attr) slog.Handler {
	return &lines{l.Handler.WithAttrs(more), l.budget}
}

func (l *lines) WithGroup(name string) slog.Handler {
	return &lines{l.Handler.WithGroup(name), l.budget}
}
