package server

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/internal/snaparchive"
)

// reindexed is an archive with another index and correct checksums.
func reindexed(t *testing.T, archive []byte, index uint64) []byte {
	t.Helper()
	var rows, out bytes.Buffer
	meta, err := snaparchive.Read(bytes.NewReader(archive), &rows)
	if err != nil {
		t.Fatal(err)
	}
	meta.Index = index
	if err := snaparchive.Write(&out, *meta, int64(rows.Len()), &rows); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestNew_RemovesFilesOfAnInterruptedRestore(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	left := filepath.Join(cfg.DataDir, "restore-123.tmp")
	if err := errors.Join(os.MkdirAll(cfg.DataDir, 0o700), os.WriteFile(left, []byte("secret"),
		0o600)); err != nil {
		t.Fatal(err)
	}
	run(t, cfg)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("restore file still exists: %v", err)
	}
}

// damagedLog is the name of the test that runs in a separate process.
const damagedLog = "TestRun_EndsTheProcessAtADamagedEntry"

// TestRun_EndsTheProcessAtADamagedEntry reads an entry that was damaged after the start, as replication does.
func TestRun_EndsTheProcessAtADamagedEntry(t *testing.T) {
	if dir := os.Getenv("BERTH_DAMAGED_LOG"); dir != "" {
		readDamaged(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+damagedLog+"$")
	dir := t.TempDir() // the process ends without the clean-ups of its test
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "BERTH_DAMAGED_LOG="+filepath.Join(dir, "data"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		bytes.Contains(out, []byte("panic")) {
		t.Errorf("process ended with %v:\n%s", err, out)
	}
	for _, part := range []string{"raft/wal/0000", "is damaged", "docs/operations/troubleshoot.md"} {
		if !bytes.Contains(out, []byte(part)) {
			t.Errorf("%q is not in the output:\n%s", part, out)
		}
	}
}

func readDamaged(t *testing.T, dir string) {
	cfg := testConfig(t)
	cfg.DataDir = dir
	s, err := New(cfg, hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr}))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Run(t.Context()) }()
	r := &running{s, t, nil}
	r.until("it leads", func() bool {
		_, leads, _, _ := s.Leader()
		return leads
	})
	r.register("the-one")
	segments, err := filepath.Glob(filepath.Join(dir, "raft", "wal", "*.wal"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<20)
	_, err = f.ReadAt(b, 0)
	at := bytes.Index(b, []byte("the-one"))
	if at < 0 || err != nil {
		t.Fatal(at, err)
	}
	if _, err := f.WriteAt([]byte("T"), int64(at)); err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); ; i++ {
		if err := s.consensus.files.Log.GetLog(i, &raft.Log{}); err != nil {
			t.Log(err)
			os.Exit(3) // the process has not ended by itself
		}
	}
}

// TestNew_PassesOverADamagedGossipFile starts on a file of serf that holds other names, clocks and noise.
func TestNew_PassesOverADamagedGossipFile(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	s := run(t, cfg)
	s.register("one")
	s.stop()
	path := filepath.Join(cfg.DataDir, "serf", "local.snapshot")
	whole, err := os.ReadFile(path)
	if err != nil || len(whole) == 0 {
		t.Fatal(whole, err)
	}
	for what, text := range map[string][]byte{
		"noise":         bytes.Repeat([]byte{0, 0xff, '\n', 0x80}, 500),
		"another clock": append(bytes.Clone(whole), "clock: 18446744073709551615\n"...),
		"another server": append(whole[:len(whole)/2],
			"alive: s9.global 127.0.0.1:1\nalive: \nalive: x\nclock: x\n"...),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s := run(t, cfg)
		if !s.has("one") {
			t.Errorf("%s: state differs", what)
		}
		s.stop()
	}
}
