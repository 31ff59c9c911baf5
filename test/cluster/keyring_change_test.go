package cluster_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	"berth/rpc"
	"berth/server"
	"berth/server/keys"
	"berth/state"
	"berth/state/csi"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

// newKeyFile writes a new key-encryption key. It returns the source with it.
func newKeyFile(t *testing.T) keys.Source {
	t.Helper()
	return keys.Source{File: keyringtest.NewFile(t)}
}

// newKeyCluster returns three servers with a key-encryption key. The first root key is there.
func newKeyCluster(t *testing.T, source keys.Source) *cluster.Cluster {
	t.Helper()
	c := cluster.New(t, 3, func(cfg *server.Config) { cfg.Keyring.Source = source })
	awaitRootKeys(c, 1, 0)
	return c
}

const (
	variablePath = "app/db"
	secretText   = "plain-secret-of-a-test"
)

// storeSecrets stores a variable and a volume with a secret.
func storeSecrets(c *cluster.Cluster) {
	c.T.Helper()
	cluster.Must(c, c.Leader(), access.VariableApply, &access.VariableApplyRequest{
		Op:    access.VariableSet,
		Path:  variablePath,
		Items: access.VariableItems{"password": secretText},
	})
	newClaimFixture(c, 0) // nodes with the plugin
	cluster.Must(c, c.Leader(), structs.CSIVolumeRegister, &structs.CSIVolumeRegisterRequest{
		Volumes: []*structs.CSIVolume{{
			ID: "secret",
			CSIVolumeSpec: structs.CSIVolumeSpec{
				ExternalID: "disk-secret",
				PluginID:   "p",
				Secrets:    structs.Secrets{"password": secretText},
				RequestedCapabilities: []*structs.CSIVolumeCapability{
					{AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem}},
			},
		}},
	})
}

// variableOf reads the variable of storeSecrets at one server.
func variableOf(ctx context.Context, s *cluster.Server) (string, error) {
	resp, err := rpc.Call(ctx, s, access.VariableGet, &access.VariableGetRequest{
		Path:         variablePath,
		QueryOptions: structs.QueryOptions{AllowStale: true},
	})
	if err != nil {
		return "", err
	}
	return resp.Variable.Items["password"], nil
}

// awaitSecrets waits until each server opens the secrets of storeSecrets. source is the key-encryption key
// that opens the rows of each.
func awaitSecrets(c *cluster.Cluster, source keys.Source) {
	c.T.Helper()
	kek, err := keyring.ReadFile(source.File)
	if err != nil {
		c.T.Fatal(err)
	}
	for _, s := range c.Servers {
		c.Await("the server reads the variable", func() bool {
			got, err := variableOf(c.T.Context(), s)
			return err == nil && got == secretText
		})
		volume := ""
		c.AwaitRows(s, "the key opens the secret of the volume", func(tx *state.ReadTx) bool {
			v := csi.Volume(tx, structs.DefaultNamespace, "secret")
			volume = openWith(kek, tx, v)
			return strings.Contains(volume, secretText)
		})
	}
}

// openWith opens the secrets of a volume by the rows of a server.
func openWith(kek *keyring.FileKey, tx *state.ReadTx, v *structs.CSIVolume) string {
	if v == nil || v.SealedSecrets == nil {
		return ""
	}
	row := trust.RootKey(tx, v.SealedSecrets.KeyID)
	if row == nil || row.KEK != kek.ID() {
		return ""
	}
	key, err := kek.Unwrap(row.KeyID, row.Wrapped)
	if err != nil {
		return ""
	}
	ring := &keyring.Ring{}
	if err := ring.Add(row.KeyID, key); err != nil {
		return ""
	}
	plain, err := ring.Open(structs.VolumePlace(v.Namespace, v.ID), v.SealedSecrets)
	if err != nil {
		return ""
	}
	return string(plain)
}

func TestKeyring_AnotherClusterRestoresWithTheKeyOfTheArchive(t *testing.T) {
	t.Parallel()
	theirs, ours := newKeyFile(t), newKeyFile(t)
	var archive bytes.Buffer
	first := newKeyCluster(t, theirs)
	storeSecrets(first)
	first.AtLeader("save an archive", func(s *cluster.Server) error {
		archive.Reset()
		return s.Current().SnapshotSave(t.Context(), &archive)
	})
	if bytes.Contains(archive.Bytes(), []byte(secretText)) {
		t.Error("the archive has the secret")
	}

	c := newKeyCluster(t, ours)
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("kept"))
	restore := func(given keyring.RestoreKeys) error {
		return c.Leader().Current().SnapshotRestore(t.Context(), bytes.NewReader(archive.Bytes()), given)
	}
	before := rootKeys(c)
	for name, given := range map[string]keyring.RestoreKeys{
		"no key":      {},
		"another key": {File: textOf(t, newKeyFile(t))},
	} {
		err := restore(given)
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), idOf(t, theirs)) ||
			!strings.Contains(err.Error(), "-keyring-file") {
			t.Errorf("%s: got %v", name, err)
		}
		after := rootKeys(c)
		if len(after) != 1 || after[0].KeyID != before[0].KeyID ||
			state.Job(c.Leader().Store().Read(), structs.DefaultNamespace, "kept") == nil {
			t.Errorf("%s: the state was changed", name)
		}
	}

	c.AtLeader("restore with the key of the archive", func(s *cluster.Server) error {
		err := s.Current().SnapshotRestore(t.Context(), bytes.NewReader(archive.Bytes()),
			keyring.RestoreKeys{File: textOf(t, theirs)})
		if structs.IsKind(err, structs.KindTimeout) { // the leader has changed meanwhile: a restore may be repeated
			err = structs.Unavailablef("%w", err)
		}
		return err
	})
	awaitSecrets(c, ours)
	awaitRootKeys(c, 1, 1)
	for _, s := range c.Servers { // without the file of the archive's cluster
		kill(t, s)
		c.Restart(s)
	}
	awaitSecrets(c, ours)
}

func textOf(t *testing.T, source keys.Source) structs.Secret {
	t.Helper()
	text, err := os.ReadFile(source.File)
	if err != nil {
		t.Fatal(err)
	}
	return structs.Secret(text)
}

func idOf(t *testing.T, source keys.Source) string {
	t.Helper()
	k, err := keyring.ReadFile(source.File)
	if err != nil {
		t.Fatal(err)
	}
	return k.ID()
}

// TestKeyring_TheKeyIsReplacedWithoutAStop takes the steps of docs/operations/keyring.md: both keys on one
// server after the other, then the new one alone. A reader and a writer go on all the time.
func TestKeyring_TheKeyIsReplacedWithoutAStop(t *testing.T) {
	t.Parallel()
	was, now := newKeyFile(t), newKeyFile(t)
	c := newKeyCluster(t, was)
	storeSecrets(c)
	rootKey := rootKeys(c)[0].KeyID

	restartEach := func(settings keys.Settings) {
		for i, s := range c.Servers {
			kill(t, s)
			s.Change(func(cfg *server.Config) { cfg.Keyring = settings })
			others := c.Others(s)
			c.Leader(others...)
			cluster.Must(c, others[0], access.VariableApply, &access.VariableApplyRequest{
				Op:    access.VariableSet,
				Path:  "while",
				Items: access.VariableItems{"n": "v"},
			})
			for _, other := range others {
				if got, err := variableOf(t.Context(), other); err != nil || got != secretText {
					t.Errorf("while server %d is away: got %q, error %v", i, got, err)
				}
			}
			c.Restart(s)
			c.Leader()
			c.Await("the server reads the variable", func() bool {
				got, err := variableOf(t.Context(), s)
				return err == nil && got == secretText
			})
			if i+1 < len(c.Servers) && settings.Previous != nil {
				if got := rootKeys(c)[0].KEK; got != idOf(t, was) {
					t.Errorf("the root key is wrapped by %s before all servers have the key", got)
				}
			}
		}
	}

	restartEach(keys.Settings{Source: now, Previous: &was})
	c.Await("the root key is wrapped by the new key", func() bool { return rootKeys(c)[0].KEK == idOf(t, now) })
	if err := os.Remove(was.File); err != nil {
		t.Fatal(err)
	}
	restartEach(keys.Settings{Source: now})
	awaitSecrets(c, now)
	if got := rootKeys(c); len(got) != 1 || got[0].KeyID != rootKey {
		t.Errorf("got %+v, want the root key %s", got, rootKey)
	}
	made := cluster.Must(c, c.Leader(), rows.KeyringRotate, &rows.KeyringRotateRequest{})
	if made.Key.KEK != idOf(t, now) {
		t.Errorf("a new root key is wrapped by %s", made.Key.KEK)
	}
}
