package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAFailureAtAnyStepUndoesEverythingBeforeItInReverse(t *testing.T) {
	for failing := range 4 {
		var done []string
		var steps []Step
		for at := range 4 {
			steps = append(steps, Step{Name: fmt.Sprint("step ", at),
				Do: func(context.Context) error {
					if at == failing {
						return errors.New("broken")
					}
					done = append(done, fmt.Sprint("+", at))
					return nil
				},
				Undo: func(context.Context) error { done = append(done, fmt.Sprint("-", at)); return nil }})
		}
		err := Run(t.Context(), steps, nil)
		var want []string
		for at := range failing {
			want = append(want, fmt.Sprint("+", at))
		}
		for at := failing; at >= 0; at-- {
			want = append(want, fmt.Sprint("-", at))
		}
		if err == nil || !strings.Contains(err.Error(), "undone") || !slices.Equal(done, want) {
			t.Errorf("%d: %v, %v", failing, done, err)
		}
	}
}

func TestWhatStaysIsNamed(t *testing.T) {
	steps := []Step{
		{Name: "grow", Do: func(context.Context) error { return nil }, Left: "the volume stays larger"},
		{Name: "mount", Do: func(context.Context) error { return nil }, Undo: func(context.Context) error { return errors.New("no answer") }},
		{Name: "end", Do: func(context.Context) error { return errors.New("broken") }},
	}
	var states []State
	err := Run(t.Context(), steps, func(it Progress) { states = append(states, it.State) })
	if err == nil || !strings.Contains(err.Error(), "stays larger") || !strings.Contains(err.Error(), "no answer") {
		t.Error(err)
	}
	if !slices.Equal(states, []State{Begins, Done, Begins, Done, Begins, Failed, Stays, Stays}) {
		t.Error(states)
	}
}

func TestAnInterruptIsAFailureAndUndoingGoesOn(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	undone := false
	steps := []Step{
		{Name: "first", Do: func(context.Context) error { stop(); return nil },
			Undo: func(ctx context.Context) error { undone = ctx.Err() == nil; return nil }},
		{Name: "second", Do: func(context.Context) error { t.Error("it went on"); return nil }},
	}
	if err := Run(ctx, steps, nil); !errors.Is(err, context.Canceled) || !undone {
		t.Error(err, undone)
	}
}
