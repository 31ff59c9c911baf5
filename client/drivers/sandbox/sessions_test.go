package sandbox

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"berth/structs"
)

// The end of a task closes its mounts. No terminal is opened there afterwards.
func TestSessions_OpenNothingAfterTheEnd(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "exec"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := &Sessions{
		Program:     &Program{},
		Children:    &Children{},
		Multiplexer: os.DevNull, // fails as a terminal
	}
	s.Children.end()
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve(t.Context(), ln)
	}()
	var report SessionReport
	err = json.NewEncoder(conn).Encode(&Session{Command: []string{"true"}, TTY: true})
	if err == nil {
		err = json.NewDecoder(conn).Decode(&report)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := structs.ErrorFromWire(report.Error); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	<-served
}
