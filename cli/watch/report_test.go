package watch

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
)

// TestRequests_EndWhileAReportIsSlow checks that a request whose answer has come does not wait for the
// explanation of its delay.
func TestRequests_EndWhileAReportIsSlow(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := New(&command.Call{Stdio: command.Stdio{Out: io.Discard}, Command: &command.Command{}})
	reports := make(chan struct{})
	var cause error
	err := w.Request(ctx, func(report context.Context) {
		close(reports)
		<-report.Done()
		cause = report.Err()
	}, func() error {
		<-reports
		return nil
	})
	if err != nil || !errors.Is(cause, context.Canceled) {
		t.Errorf("the request ends with %v, and its report with %v", err, cause)
	}
}

// TestRequests_BoundAReport checks that a report that lasts does not hold the next one up.
func TestRequests_BoundAReport(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := New(&command.Call{Stdio: command.Stdio{Out: io.Discard}, Command: &command.Command{}})
	ended := make(chan error, 1)
	err := w.Request(ctx, func(report context.Context) {
		<-report.Done()
		ended <- report.Err()
	}, func() error { return <-ended })
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("the report ends with %v", err)
	}
}

// TestVolumeCreate_ShowsTheRemedy checks that a command which waits for a volume writes what helps once, as
// the number of failures grows.
func TestVolumeCreate_ShowsTheRemedy(t *testing.T) {
	t.Parallel()
	attempts := 0
	var out strings.Builder
	w := New(clitest.CallOf(t, &out, map[string]func() any{
		"/v1/volume/csi/data": func() any {
			attempts++
			d := &structs.CSIVolumeDetail{}
			d.ID = "data"
			d.State = structs.VolumeCreating
			d.LastError = &structs.OperationError{
				Code:     "Unavailable",
				Message:  "no answer",
				Attempts: attempts,
			}
			return d
		},
		"/v1/volume/csi/data/why": func() any {
			return &structs.WhyResponse{Waits: true, Reasons: []*structs.Reason{
				{Text: "volume data is being created", Remedy: "to try now: berth volume retry data"},
			}}
		},
	}))
	for range 3 {
		w.reportProgress(t.Context(), "", "data")
	}
	clitest.CheckLines(t, out.String(), `Volume "data" is creating: Unavailable: no answer (2 attempts`)
	if got := strings.Count(out.String(), "-> to try now: berth volume retry data"); got != 1 {
		t.Errorf("the remedy is written %d times, want once:\n%s", got, out.String())
	}
}
