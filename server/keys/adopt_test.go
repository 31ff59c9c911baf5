package keys

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

// keyText returns the text of a key file.
func keyText(t *testing.T, s Settings) structs.Secret {
	t.Helper()
	text, err := os.ReadFile(s.File)
	if err != nil {
		t.Fatal(err)
	}
	return structs.Secret(text)
}

// withSecret makes a root key and stores a variable that it encrypts.
func (c *testCluster) withSecret(s *server) {
	c.t.Helper()
	s.lead(c.t.Context())
	s.update(c.t.Context())
	place := access.VariablePlace("default", "nomad/jobs/web")
	sealed, err := s.Ring.Seal(place, []byte("value"))
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = fsm.Propose(c.t.Context(), c, fsm.VariablePut, &access.VariableChange{
		Namespace: "default",
		Path:      "nomad/jobs/web",
		Sealed:    sealed,
		Now:       time.Now().UnixNano(),
	})
	if err != nil {
		c.t.Fatal(err)
	}

	_, err = fsm.Propose(c.t.Context(), c, fsm.AuthoritySet, &cluster.AuthorityRequest{
		ID:      "a",
		CertPEM: "a certificate",
		Key:     &structs.Sealed{KeyID: sealed.KeyID, Data: []byte("a key")},
		Now:     1,
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// opensSecret reports whether a server with these settings opens the secret of withSecret in a state.
func opensSecret(t *testing.T, store *state.Store, settings Settings) bool {
	t.Helper()
	s := (&testCluster{t, oneserver.LogOf(store)}).server(settings)
	s.update(t.Context())
	for v := range trust.SealedValues(store.Read()) {
		value, err := s.Ring.Open(v.Place, v.Value)
		return err == nil && string(value) == "value"
	}
	return false
}

// contentOf returns the root keys of a state.
func contentOf(t *testing.T, store *state.Store) string {
	t.Helper()
	var b bytes.Buffer
	if err := store.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAdopt_NeedsTheKeyOfTheArchive(t *testing.T) {
	theirs := file(t)
	ours := file(t)
	another := file(t)
	unset := Settings{}
	for _, c := range []struct {
		name     string
		settings Settings
		given    keyring.RestoreKeys
		want     []string // parts of the error
		opens    bool     // afterwards
	}{
		{"the same key", theirs, keyring.RestoreKeys{}, nil, true},
		{"no key is given", ours, keyring.RestoreKeys{}, []string{"nothing has changed", "-keyring-file",
			"-escrow", "variable default/nomad/jobs/web"}, false},
		{"no key at all", unset, keyring.RestoreKeys{}, []string{"this server has none"}, false},
		{"no key of its own", unset, keyring.RestoreKeys{File: keyText(t, theirs)},
			[]string{"this server has none"}, false},
		{"another key is given", ours, keyring.RestoreKeys{File: keyText(t, another)},
			[]string{"the given file has"}, false},
		{"no key file", ours, keyring.RestoreKeys{File: "hello"}, []string{"it is no key-encryption key"}, false},
		{"the key is given", ours, keyring.RestoreKeys{File: keyText(t, theirs)}, nil, true},
		{"as the previous key", Settings{Source: ours.Source, Previous: &theirs.Source}, keyring.RestoreKeys{}, nil, true},
		{"the secrets are lost", ours, keyring.RestoreKeys{LoseSecrets: true}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			archive := newCluster(t)
			owner := archive.server(theirs)
			archive.withSecret(owner)
			before := contentOf(t, archive.Store)

			here := newCluster(t)
			s := here.server(c.settings)
			err := s.Adopt(t.Context(), archive.Store, c.given)
			if (err != nil) != (c.want != nil) {
				t.Fatalf("got %v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q: %v", part, err)
				}
			}
			if err != nil && c.given.File != "hello" && !strings.Contains(err.Error(), owner.KEK()) {
				t.Errorf("the error does not name %s: %v", owner.KEK(), err)
			}
			if err != nil && contentOf(t, archive.Store) != before {
				t.Error("the state was changed")
			}
			present := Settings{Source: c.settings.Source}
			if got := opensSecret(t, archive.Store, present); got != c.opens {
				t.Errorf("the servers open the secret: %t", got)
			}
			signs := trust.ActiveAuthority(archive.Store.Read()) != nil
			if signs == c.given.LoseSecrets {
				t.Errorf("the archive still has an authority that signs: %t", signs)
			}
		})
	}
}

func TestAdopt_NeedsTheKeyOnAllServers(t *testing.T) {
	theirs := file(t)
	archive := newCluster(t)
	archive.withSecret(archive.server(theirs))
	s := newCluster(t).server(file(t), Server{Name: "b", KEK: "0123456789abcdef"})
	err := s.Adopt(t.Context(), archive.Store, keyring.RestoreKeys{File: keyText(t, theirs)})
	if structs.KindOf(err) != structs.KindPrecondition ||
		!strings.Contains(err.Error(), "b has 0123456789abcdef") {
		t.Errorf("got %v", err)
	}
}

// TestAdopt_KnowsItsOwnRootKeys restores an archive from before the key-encryption key was replaced.
func TestAdopt_KnowsItsOwnRootKeys(t *testing.T) {
	was, now := file(t), file(t)
	archive := newCluster(t)
	archive.withSecret(archive.server(was))

	here := newCluster(t)
	here.server(was).lead(t.Context()) // another root key
	for row := range trust.RootKeys(here.Store.Read()) {
		_, err := fsm.Propose(t.Context(), here, fsm.RootKeyRemove, &cluster.RootKeyRemoveRequest{KeyID: row.KeyID})
		if err == nil {
			t.Fatal("the active key is removed")
		}
	}
	row := trust.ActiveRootKey(archive.Store.Read())
	_, err := fsm.Propose(t.Context(), here, fsm.RootKeyAdd, &cluster.RootKeyAddRequest{
		KeyID:   row.KeyID,
		Wrapped: row.Wrapped,
		KEK:     row.KEK,
		Digest:  row.Digest,
		Was:     trust.ActiveRootKey(here.Store.Read()).KeyID,
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := here.server(Settings{Source: now.Source, Previous: &was.Source}); !s.lead(t.Context()) {
		t.Fatal(s.log.String())
	}

	if err := here.server(now).Adopt(t.Context(), archive.Store, keyring.RestoreKeys{}); err != nil {
		t.Fatal(err)
	}
	if !opensSecret(t, archive.Store, now) {
		t.Error("the secret is closed")
	}
}

func TestAdopt_IgnoresAKeyThatNothingNeeds(t *testing.T) {
	lost, theirs := file(t), file(t)
	archive := newCluster(t)
	archive.server(lost).lead(t.Context())
	unused := trust.ActiveRootKey(archive.Store.Read()).KeyID
	owner := archive.server(theirs)
	if _, _, err := owner.Rotate(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	archive.withSecret(owner)
	given := keyring.RestoreKeys{File: keyText(t, theirs)}
	if err := newCluster(t).server(file(t)).Adopt(t.Context(), archive.Store, given); err != nil {
		t.Fatal(err)
	}
	if got := trust.RootKey(archive.Store.Read(), unused).KEK; got != archive.server(lost).KEK() {
		t.Errorf("the unused key is wrapped by %s", got)
	}
}

// The active key of an archive without secrets is of no use, and would reject new ones.
func TestAdopt_DeletesAnActiveKeyThatEncryptsNothing(t *testing.T) {
	lost := file(t)
	for name, settings := range map[string]Settings{"another key": file(t), "no key": {}} {
		archive := newCluster(t)
		archive.server(lost).lead(t.Context())
		if trust.ActiveRootKey(archive.Store.Read()) == nil {
			t.Fatal("the archive has no root key")
		}
		err := newCluster(t).server(settings).Adopt(t.Context(), archive.Store, keyring.RestoreKeys{})
		if got := trust.ActiveRootKey(archive.Store.Read()); err != nil || got != nil {
			t.Errorf("%s: the active root key is %v, %v", name, got, err)
		}
	}
	same := newCluster(t)
	same.server(lost).lead(t.Context())
	err := newCluster(t).server(lost).Adopt(t.Context(), same.Store, keyring.RestoreKeys{})
	if err != nil || trust.ActiveRootKey(same.Store.Read()) == nil {
		t.Errorf("a key that the servers open is deleted, %v", err)
	}
}

func TestRewrap_WaitsForAllServersAndChangesNoSecret(t *testing.T) {
	was, now := file(t), file(t)
	both := Settings{Source: now.Source, Previous: &was.Source}
	cl := newCluster(t)
	former := cl.server(was)
	cl.withSecret(former)
	sealed := slices.Collect(trust.SealedValues(cl.Store.Read()))[0].Value

	waits := cl.server(both, Server{Name: "b", KEK: former.KEK()})
	waits.update(t.Context())
	if len(waits.Ring.IDs()) != 1 || waits.Ring.Active() == "" {
		t.Errorf("the previous key opens %q", waits.Ring.IDs())
	}
	if waits.lead(t.Context()) || !strings.Contains(waits.log.String(), "b has "+former.KEK()) {
		t.Error("it does not wait for a server with the former key", waits.log.String())
	}
	if got := trust.ActiveRootKey(cl.Store.Read()); got.KEK != former.KEK() {
		t.Errorf("it is wrapped by %s", got.KEK)
	}
	former.lead(t.Context())
	if trust.ActiveRootKey(cl.Store.Read()).KEK != former.KEK() {
		t.Error("a leader with the former key wraps it")
	}

	leader := cl.server(both, Server{Name: "b", KEK: waits.KEK()})
	if !leader.lead(t.Context()) {
		t.Fatal(leader.log.String())
	}
	row := trust.ActiveRootKey(cl.Store.Read())
	if row.KEK != leader.KEK() || !opensSecret(t, cl.Store, now) || opensSecret(t, cl.Store, was) {
		t.Errorf("it is wrapped by %s", row.KEK)
	}
	if got := slices.Collect(trust.SealedValues(cl.Store.Read()))[0].Value; !bytes.Equal(got.Data, sealed.Data) {
		t.Error("the secret was encrypted again")
	}
	index := cl.Index()
	if !leader.lead(t.Context()) || cl.Index() != index {
		t.Error("it wraps the key a second time")
	}
}

func TestRewrap_RejectsAKeyThatIsUnwrappedWrongly(t *testing.T) {
	wrong := script(t, strings.Replace(swapping, "*) data=$(echo \"$data\" | base64 -d | sed 's/^W//'",
		"*) data=$(echo \"$data\" | base64 -d | sed 's/^W./X/'", 1))
	previous := Source{Command: wrong.argv, KeyID: "prod"}
	cl := newCluster(t)
	cl.server(Settings{Source: previous}).lead(t.Context())
	was := trust.ActiveRootKey(cl.Store.Read()).KEK
	s := cl.server(Settings{Source: file(t).Source, Previous: &previous})
	if s.lead(t.Context()) || !strings.Contains(s.log.String(), "another key") {
		t.Error(s.log.String())
	}
	if got := trust.ActiveRootKey(cl.Store.Read()).KEK; got != was {
		t.Errorf("it is wrapped by %s", got)
	}
}

func TestRewrap_TellsOfAKeyThatNobodyOpens(t *testing.T) {
	cl := newCluster(t)
	cl.server(file(t)).lead(t.Context())
	other := file(t)
	s := cl.server(Settings{Source: file(t).Source, Previous: &other.Source})
	for range 3 {
		if s.lead(t.Context()) {
			t.Error("it counts as done")
		}
	}
	if got := strings.Count(s.log.String(), "1 root keys need"); got != 1 {
		t.Errorf("it warned %d times: %s", got, s.log.String())
	}
}

func TestNew_ReadsThePreviousKeyAgain(t *testing.T) {
	was, now := file(t), file(t)
	cl := newCluster(t)
	cl.withSecret(cl.server(was))
	moved := was.File + ".moved"
	if err := os.Rename(was.File, moved); err != nil {
		t.Fatal(err)
	}
	s := cl.server(Settings{Source: now.Source, Previous: &was.Source})
	if s.update(t.Context()) || !strings.Contains(s.log.String(), "no such file") {
		t.Error(s.log.String())
	}
	if err := os.Rename(moved, was.File); err != nil {
		t.Fatal(err)
	}
	if !s.update(t.Context()) {
		t.Error(s.log.String())
	}

	if err := os.Chmod(was.File, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := New(Deps{Ring: &keyring.Ring{}, Settings: Settings{Source: now.Source, Previous: &was.Source}})
	if structs.KindOf(err) != structs.KindPrecondition {
		t.Errorf("a previous file that others read: got %v", err)
	}
}
