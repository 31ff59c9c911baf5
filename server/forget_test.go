package server

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	"berth/server/control/cluster"
	"berth/server/control/loop"
	"berth/state"
	"berth/state/csi"
	"berth/state/trust"
	"berth/structs"
)

const plainSecret = "c4n4ry-of-the-server"

// filesWith returns the files below a directory that have a text.
func filesWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(b, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// putPlain stores a volume whose secrets are not encrypted.
func (r *running) putPlain(id string) {
	r.t.Helper()
	_, err := fsm.Propose(r.t.Context(), r, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes: []*structs.CSIVolume{{
			ID: id, Namespace: structs.DefaultNamespace,
			CSIVolumeSpec: structs.CSIVolumeSpec{
				PluginID:   "p",
				ExternalID: "ext-" + id,
				Secrets:    structs.Secrets{"k": plainSecret},
			},
		}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// awaitRootKey waits until the server can encrypt secrets.
func (r *running) awaitRootKey() {
	r.t.Helper()
	r.until("it has a root key", func() bool { return r.keys.Active() != "" })
}

func TestServer_RemovesPlainSecretsFromItsDiskOnceItHasAKey(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	r := run(t, cfg)
	r.putPlain("v")
	if err := r.consensus.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	r.putPlain("w")
	if len(filesWith(t, cfg.DataDir, plainSecret)) < 2 {
		t.Fatal("neither the log nor a snapshot has the secret, so the test shows nothing")
	}
	r.stop()

	cfg.Keyring.File = keyringtest.NewFile(t)
	r = run(t, cfg)
	r.until("the files are removed", func() bool { return r.forget.Done() > 0 })
	if found := filesWith(t, cfg.DataDir, plainSecret); len(found) > 0 {
		t.Errorf("%v still have the secret", found)
	}
	mark := trust.SecretsMark(r.store.Read())
	if r.forget.Done() != mark.ModifyIndex || r.Stats()["secrets_removed_to"] == "0" {
		t.Errorf("removed up to %d, the mark is %d", r.forget.Done(), mark.ModifyIndex)
	}
	if usual := r.consensus.ReloadableConfig().TrailingLogs; usual != cfg.TrailingLogs {
		t.Errorf("the log keeps %d entries, want %d", usual, cfg.TrailingLogs)
	}
	r.register("after")
	r.stop()

	r = run(t, cfg)
	if !r.has("after") || csi.Volume(r.store.Read(), structs.DefaultNamespace, "v").SealedSecrets == nil {
		t.Error("the restarted server lacks rows")
	}
	before := r.consensus.Stats()["last_snapshot_index"]
	r.until("the mark is read", func() bool { return r.forget.Done() == mark.ModifyIndex })
	if now := r.consensus.Stats()["last_snapshot_index"]; now != before {
		t.Error("a restarted server removed the files again")
	}
	r.stop()
}

// Two servers remove the entries while others are written.
func TestServer_RemovesPlainSecretsAlsoAsAFollowerUnderLoad(t *testing.T) {
	noLeaks(t)
	patient := testConfig(t)
	patient.Keyring.File = filepath.Join(t.TempDir(), "keyring") // not there yet
	patient.RaftTimeout = 3 * time.Second
	r := run(t, patient)
	r.putPlain("v")

	cfg := testConfig(t)
	cfg.RaftTimeout = 3 * time.Second
	cfg.Name = "s2"
	cfg.Keyring = patient.Keyring
	cfg.BootstrapExpect = 0
	at := r.Member()
	cfg.RetryJoin = []string{net.JoinHostPort(at.Addr, strconv.Itoa(int(at.Port)))}
	s, err := New(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	follower := startAny(t, s)
	follower.rows("it has the volume", func(tx *state.ReadTx) bool {
		return csi.Volume(tx, structs.DefaultNamespace, "v") != nil
	})
	if len(filesWith(t, cfg.DataDir, plainSecret)) == 0 {
		t.Fatal("the follower does not have the secret, so the test shows nothing")
	}

	if err := keyring.NewFileKey().WriteNew(cfg.Keyring.File); err != nil {
		t.Fatal(err)
	}
	r.awaitRootKey()
	loop := cluster.SealLoop{Common: loop.Common{
		Store: r.store, Proposer: r, Keys: r.keys, Logger: hclog.NewNullLogger(),
	}}
	r.until("the rows are sealed", func() bool { return loop.Step(t.Context()) == nil })
	jobs := 0
	r.until("both have removed the files", func() bool {
		jobs++
		r.register(fmt.Sprint("j", jobs))
		return r.forget.Done() > 0 && follower.forget.Done() > 0
	})
	for _, dir := range []string{r.cfg.DataDir, cfg.DataDir} {
		if found := filesWith(t, dir, plainSecret); len(found) > 0 {
			t.Errorf("%v still have the secret", found)
		}
	}
	last := fmt.Sprint("j", jobs)
	follower.rows("it follows on", func(tx *state.ReadTx) bool {
		return state.Job(tx, structs.DefaultNamespace, last) != nil
	})
	follower.stop()
	r.stop()
}
