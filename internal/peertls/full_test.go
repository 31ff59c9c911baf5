package peertls

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/files"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/test/kit"
)

// The disk ends at each of the writes of a renewal. The agent starts again from its files, and renews when
// there is space.
func TestReplace_OnAFullDiskKeepsAWholeCertificate(t *testing.T) {
	r := newReplacing(t)
	k := r.open(pki.RoleNode, "n1")
	dir := kit.MountDisk(t, "1m")
	for _, path := range []*string{&k.cfg.CAFile, &k.cfg.CertFile, &k.cfg.KeyFile} {
		text, err := os.ReadFile(*path)
		if err != nil {
			t.Fatal(err)
		}
		*path = filepath.Join(dir, filepath.Base(*path))
		pkitest.Write(t, *path, text)
	}
	former := k.current.Load().raw[1]
	failed := 0
	for left := uint64(0); ; left += uint64(os.Getpagesize()) {
		free := kit.FillDisk(t, dir, left)
		err := r.tryRenew(k, r.next)
		if err != nil && !files.IsNoSpace(err) {
			t.Fatalf("with %d bytes: %v", left, err)
		}
		started, bad := Open(k.cfg, "global", pki.RoleNode, hclog.NewNullLogger())
		if bad != nil {
			t.Fatalf("with %d bytes the agent does not start again: %v", left, bad)
		}
		now, read := os.ReadFile(k.cfg.CertFile)
		if read != nil || err != nil && left == 0 && !bytes.Equal(now, former) {
			t.Errorf("with %d bytes: the certificate is not the former one (%v)", left, read)
		}
		if parts, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(parts) > 0 {
			t.Errorf("with %d bytes: %q take space", left, parts)
		}
		if at := time.Now(); started.Premature(at) || at.After(started.Expires()) {
			t.Errorf("with %d bytes: the certificate %s", left, started.Validity(at))
		}
		free()
		if err == nil {
			break
		}
		failed++
	}
	if failed == 0 {
		t.Error("the disk was not full")
	}
	if !k.Follows([]string{pki.AuthorityID(r.next.Cert)}) {
		t.Error("it trusts others, too")
	}
}
