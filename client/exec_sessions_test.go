package client

import (
	"context"
	"testing"

	"berth/client/drivers/driver"
	"berth/structs"
)

func TestSessions_HaveABound(t *testing.T) {
	s := newExecSessions(2)
	began := make(chan struct{})
	release := make(chan struct{})
	run := s.bound(func(context.Context, *driver.ExecConfig) (*driver.ExitResult, error) {
		began <- struct{}{}
		<-release
		return &driver.ExitResult{ExitCode: 4}, nil
	})
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := run(t.Context(), nil)
			ended <- err
		}()
		<-began
	}
	if _, err := run(t.Context(), nil); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("one too many: %v", err)
	}
	close(release)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	go func() { <-began }()
	if result, err := run(t.Context(), nil); err != nil || result.ExitCode != 4 {
		t.Errorf("after the end of the others: %+v, %v", result, err)
	}
}
