// Package job runs steps that belong together: what was done is undone if a later step fails.
package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Step is a part of a job.
type Step struct {
	Name string
	Do   func(context.Context) error
	// Undo takes the step back; nil: there is nothing to take back.
	Undo func(context.Context) error
	// Left says what stays of a step that can't be taken back; empty: nothing.
	Left string
}

// State of a step.
type State string

const (
	Begins State = "begins"
	Done   State = "done"
	Failed State = "failed"
	Undone State = "undone"
	Stays  State = "stays"
)

// Progress is reported as steps begin and end.
type Progress struct {
	// Number of the step, from 1, of a total.
	Number int    `json:"number"`
	Total  int    `json:"total"`
	Step   string `json:"step"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
}

func (p Progress) String() string {
	text := fmt.Sprintf("%d/%d %s: %s", p.Number, p.Total, p.Step, p.State)
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// undoTimeout bounds the undoing of a step, which also happens after an interrupt.
const undoTimeout = 5 * time.Minute

// Error is a job that failed.
type Error struct {
	Step   string
	Reason error
	// Stays are steps that are still in effect, each with what to do.
	Stays []string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %v", e.Step, e.Reason)
	if len(e.Stays) == 0 {
		return text + "; everything before it was undone"
	}
	return text + "; what is still in effect: " + strings.Join(e.Stays, "; ")
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// ErrCancelled is the reason of a job that was cancelled before its end.
var ErrCancelled = errors.New("it was cancelled")

// Reversible reports whether all steps can be taken back, so that the job can be cancelled between two of them. A job of one
// step has nothing between.
func Reversible(steps []Step) bool {
	for _, it := range steps {
		if it.Left != "" {
			return false
		}
	}
	return len(steps) > 1
}

// Run does the steps. Progress may be nil. A context that is cancelled ends it before the next step.
func Run(ctx context.Context, steps []Step, progress func(Progress)) error {
	report := func(at int, state State, reason error) {
		if progress == nil {
			return
		}
		made := Progress{Number: at + 1, Total: len(steps), Step: steps[at].Name, State: state}
		if reason != nil {
			made.Reason = reason.Error()
		}
		progress(made)
	}
	for at, step := range steps {
		report(at, Begins, nil)
		err := context.Cause(ctx)
		if err == nil {
			err = step.Do(ctx)
		}
		if err == nil {
			report(at, Done, nil)
			continue
		}
		report(at, Failed, err)
		return &Error{Step: step.Name, Reason: err, Stays: undo(ctx, steps[:at+1], report)}
	}
	return nil
}

// undo takes steps back from the last, which may have happened in part.
func undo(ctx context.Context, steps []Step, report func(int, State, error)) []string {
	var stays []string
	for at := len(steps) - 1; at >= 0; at-- {
		step := steps[at]
		failed := at == len(steps)-1
		switch {
		case step.Undo != nil:
			bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
			err := step.Undo(bounded)
			stop()
			if err != nil {
				stays = append(stays, fmt.Sprintf("%s (it could not be undone: %v)", step.Name, err))
				report(at, Stays, err)
			} else {
				report(at, Undone, nil)
			}
		case step.Left != "" && !failed:
			stays = append(stays, step.Left)
			report(at, Stays, errors.New(step.Left))
		}
	}
	return stays
}
