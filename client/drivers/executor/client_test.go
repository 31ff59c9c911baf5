package executor

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"berth/structs"
)

// The context of a call may end before the connection is made, or after it.
func TestCallSupervisor_WithoutTimeIsATimeout(t *testing.T) {
	dir := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(dir, socketFile))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	silent := &task{id: "a1/web", dir: dir}
	_, err = silent.callSupervisor(ctx, &request{Op: opStats})
	if !structs.IsKind(err, structs.KindTimeout) {
		t.Errorf("got %v, want a timeout", err)
	}
}
