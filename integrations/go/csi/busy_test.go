package csi

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
)

func TestCallsForOneVolumeWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls busy
		enter := func(ctx context.Context, key string) func() { return got(calls.enter(ctx, key))(t) }
		first := enter(t.Context(), "a")
		enter(t.Context(), "b")()
		entered := make(chan func(), 2)
		for range 2 {
			go func() { entered <- enter(t.Context(), "a") }()
		}
		synctest.Wait()
		if len(entered) != 0 {
			t.Error("a second call did not wait")
		}
		first()
		synctest.Wait()
		if len(entered) != 1 {
			t.Errorf("%d calls went on after one ended", len(entered))
		}
		(<-entered)()
		(<-entered)()

		defer enter(t.Context(), "a")()
		ended, end := context.WithCancel(t.Context())
		end()
		_, err := calls.enter(ended, "a")
		want(t, codes.Aborted, err)
	})
}
