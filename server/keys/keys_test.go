package keys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/kit"
	"berth/test/oneserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testCluster has the log that the keys of several servers share.
type testCluster struct {
	t *testing.T
	*oneserver.Log
}

func newCluster(t *testing.T) *testCluster { return &testCluster{t, oneserver.NewLog()} }

// server is the keys of one server, with its log.
type server struct {
	*Keys
	log  kit.Output
	tags []string
}

// server returns the keys of a server with some settings. others are the other servers.
func (c *testCluster) server(settings Settings, others ...Server) *server {
	c.t.Helper()
	s := &server{}
	k, err := New(Deps{
		Settings: settings,
		Ring:     &keyring.Ring{},
		Store:    c.Store,
		Proposer: c,
		Servers: func() []Server {
			return append([]Server{{Name: "self", Self: true, KEK: s.KEK()}}, others...)
		},
		Ask: func(context.Context, string) (*cluster.KeyringStatus, error) {
			return nil, errors.New("it is cut off")
		},
		Announce: func(kek string) { s.tags = append(s.tags, kek) },
		Logger:   hclog.New(&hclog.LoggerOptions{Output: &s.log}),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	s.Keys = k
	return s
}

// file returns settings with the file of a new key-encryption key.
func file(t *testing.T) Settings {
	t.Helper()
	return Settings{Source: Source{File: keyringtest.NewFile(t)}}
}

func (c *testCluster) states() (states []string) {
	for k := range trust.RootKeys(c.Store.Read()) {
		states = append(states, k.State)
	}
	slices.Sort(states)
	return states
}

func TestLead_MakesTheFirstKey(t *testing.T) {
	settings := file(t)
	k, err := keyring.ReadFile(settings.File)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		settings Settings
		other    string // the key-encryption key of another server
		want     []string
		said     string
	}{
		{"the same key", settings, k.ID(), []string{"active"}, ""},
		{"another key", settings, "0123456789abcdef", nil, "b has 0123456789abcdef"},
		{"a server without one", settings, "", nil, "b has none"},
		{"no setting", Settings{}, "", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := newCluster(t)
			s := cl.server(c.settings, Server{Name: "b", KEK: c.other})
			for range 3 {
				s.lead(t.Context())
			}
			if got := cl.states(); !slices.Equal(got, c.want) {
				t.Errorf("the keys are %q, want %q", got, c.want)
			}
			if got := strings.Count(s.log.String(), "waits"); c.said != "" && got != 1 || c.said == "" && got != 0 {
				t.Errorf("it warned %d times: %s", got, s.log.String())
			}
			if !strings.Contains(s.log.String(), c.said) {
				t.Errorf("the log lacks %q: %s", c.said, s.log.String())
			}
		})
	}
}

func TestUpdate_KeepsTheRingAsTheRows(t *testing.T) {
	cl := newCluster(t)
	settings := file(t)
	s, other := cl.server(settings), cl.server(settings)
	s.lead(t.Context())
	first := trust.ActiveRootKey(cl.Store.Read())
	if !s.update(t.Context()) || !other.update(t.Context()) {
		t.Fatal(s.log.String(), other.log.String())
	}
	sealed, err := s.Ring.Seal("x", []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Ring.Open("x", sealed); err != nil || string(got) != "value" {
		t.Fatalf("another server opens %q, error %v", got, err)
	}

	key, _, err := s.Rotate(t.Context(), false)
	if err != nil || key.State != cluster.RootKeyActive {
		t.Fatalf("got %+v, error %v", key, err)
	}
	other.update(t.Context())
	if other.Ring.Active() != key.KeyID || len(other.Ring.IDs()) != 2 {
		t.Errorf("after a rotation: %q of %q is active", other.Ring.Active(), other.Ring.IDs())
	}
	_, err = fsm.Propose(t.Context(), cl, fsm.RootKeyRemove, &cluster.RootKeyRemoveRequest{KeyID: first.KeyID})
	if err != nil {
		t.Fatal(err)
	}
	other.update(t.Context())
	if !slices.Equal(other.Ring.IDs(), []string{key.KeyID}) {
		t.Errorf("after a removal: %q", other.Ring.IDs())
	}
	if strings.Contains(string(first.Wrapped), "value") || s.tags[0] != s.KEK() {
		t.Errorf("got the tags %q", s.tags)
	}
}

// Without the key of the authority no certificate is renewed.
func TestUpdate_TellsThatTheKeyOfTheAuthorityIsLost(t *testing.T) {
	cl := newCluster(t)
	cl.server(file(t)).lead(t.Context())
	_, err := fsm.Propose(t.Context(), cl, fsm.AuthoritySet, &cluster.AuthorityRequest{
		ID:      "a",
		CertPEM: "certificate",
		Key: &structs.Sealed{
			KeyID: trust.ActiveRootKey(cl.Store.Read()).KeyID,
			Data:  []byte("key"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	s := cl.server(file(t)) // another key-encryption key
	if s.update(t.Context()) {
		t.Error("all keys count as open")
	}
	log := s.log.String()
	if !strings.Contains(log, "end within a day") || !strings.Contains(log, "ca_key_file") ||
		strings.Contains(log, "not_affected") {
		t.Errorf("the log is %s", log)
	}
}

func TestUpdate_TellsALostKeyOnceAndGoesOn(t *testing.T) {
	cl := newCluster(t)
	settings := file(t)
	cl.server(settings).lead(t.Context())
	moved := settings.File + ".moved"
	if err := os.Rename(settings.File, moved); err != nil {
		t.Fatal(err)
	}

	s := cl.server(settings)
	for range 3 {
		if s.update(t.Context()) {
			t.Error("all keys count as open")
		}
	}
	log := s.log.String()
	if strings.Count(log, "cannot be opened") != 1 || !strings.Contains(log, "no such file") ||
		!strings.Contains(log, "not_affected") {
		t.Errorf("the log is %s", log)
	}
	id := trust.ActiveRootKey(cl.Store.Read()).KeyID
	if reason := s.Closed(t.Context())[id]["self"]; !strings.Contains(reason, "no such file") {
		t.Errorf("the reason is %q", reason)
	}
	if _, _, err := s.Rotate(t.Context(), false); structs.KindOf(err) != structs.KindPrecondition {
		t.Errorf("a rotation without the key: %v", err)
	}

	if err := os.Rename(moved, settings.File); err != nil {
		t.Fatal(err)
	}
	if !s.update(t.Context()) || s.Ring.Active() != id || len(s.Closed(t.Context())) != 0 {
		t.Errorf("the file is back, and the key is not open: %s", s.log.String())
	}
}

func TestUpdate_NamesTheKeyThatItNeeds(t *testing.T) {
	cl := newCluster(t)
	owner := cl.server(file(t))
	owner.lead(t.Context())
	s := cl.server(file(t), Server{Name: "b", Address: "b:1"})
	s.update(t.Context())
	id := trust.ActiveRootKey(cl.Store.Read()).KeyID
	closed := s.Closed(t.Context())[id]
	if !strings.Contains(closed["self"], owner.KEK()) || !strings.Contains(closed["self"], s.KEK()) ||
		!strings.Contains(closed["b"], "did not answer") {
		t.Errorf("got %q", closed)
	}
	if s.Ring.Active() != "" {
		t.Error("it encrypts with a key that is not open")
	}
}

func TestNew_RejectsAFileThatOthersRead(t *testing.T) {
	settings := file(t)
	if err := os.Chmod(settings.File, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := New(Deps{Settings: settings})
	if structs.KindOf(err) != structs.KindPrecondition || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v", err)
	}
}

func TestLead_ANewLeaderEndsAFullRotation(t *testing.T) {
	cl := newCluster(t)
	settings := file(t)
	first := cl.server(settings)
	first.lead(t.Context())
	first.update(t.Context())
	if _, _, err := first.Rotate(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if first.lead(t.Context()) {
		t.Error("it counts as done before the new key is open")
	}
	cl.Fail(structs.Unavailablef("another server leads"))
	first.update(t.Context())
	if first.lead(t.Context()) {
		t.Error("it counts as done though nothing was stored")
	}
	if got := cl.states(); !slices.Equal(got, []string{"active", "rekeying"}) {
		t.Fatalf("the keys are %q", got)
	}

	cl.Fail(nil)
	next := cl.server(settings)
	next.update(t.Context())
	if !next.lead(t.Context()) {
		t.Error(next.log.String())
	}
	if got := cl.states(); !slices.Equal(got, []string{"active", "inactive"}) {
		t.Errorf("the keys are %q", got)
	}
}

func TestResealing_BoundsItsEntries(t *testing.T) {
	cl := newCluster(t)
	s := cl.server(file(t))
	s.lead(t.Context())
	s.update(t.Context())
	b := resealing{keys: s.Keys}
	before := cl.Index()
	for i := range rekeyValues + 1 {
		place := fmt.Sprint("place ", i)
		sealed, err := s.Ring.Seal(place, []byte("value"))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.add(t.Context(), trust.SealedValue{Place: place, Value: sealed}); err != nil {
			t.Fatal(err)
		}
	}
	if cl.Index() != before+1 || len(b.values) != 1 {
		t.Errorf("%d entries for %d values, and %d are left", cl.Index()-before, rekeyValues+1, len(b.values))
	}
	sealed, err := s.Ring.Seal("large", make([]byte, rekeyBytes))
	if err == nil {
		err = b.add(t.Context(), trust.SealedValue{Place: "large", Value: sealed})
	}
	if err != nil || len(b.values) != 0 || b.done != rekeyValues+2 {
		t.Errorf("%d values are left and %d done, error %v", len(b.values), b.done, err)
	}
	closed := &structs.Sealed{KeyID: "gone", Data: []byte("x")}
	if err := b.add(t.Context(), trust.SealedValue{Value: closed}); err == nil {
		t.Error("a value whose key is not open counts as done")
	}
}

func TestFollow_SeesEachChange(t *testing.T) {
	settings := file(t)
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t)
		s := cl.server(settings)
		ctx, cancel := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		loops.Go(func() { s.Follow(ctx) })
		loops.Go(func() { s.Lead(ctx) })
		defer loops.Wait()
		defer cancel()
		synctest.Wait()
		if s.Ring.Active() == "" {
			t.Fatal("there is no key at once")
		}

		key, _, err := s.Rotate(ctx, true)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * retryInterval) // virtual time
		if s.Ring.Active() != key.KeyID || !slices.Equal(cl.states(), []string{"active", "inactive"}) {
			t.Errorf("%q is active, the keys are %q", s.Ring.Active(), cl.states())
		}
	})
}

func TestSettings_ValidateNamesEachFault(t *testing.T) {
	for _, c := range []struct {
		settings Settings
		want     string
	}{
		{Settings{}, ""},
		{Settings{Source: Source{File: "/etc/berth/keyring"}}, ""},
		{Settings{Source: Source{Command: []string{"/bin/kms"}, KeyID: "k"}}, ""},
		{Settings{Source: Source{File: "keyring"}}, "absolute path"},
		{
			Settings{Source: Source{File: "/k", Command: []string{"/bin/kms"}, KeyID: "k"}},
			"2 of file, command and transit",
		},
		{Settings{Source: Source{Command: []string{"kms"}, KeyID: "k"}}, "absolute path of a program"},
		{Settings{Source: Source{Command: []string{"/bin/kms"}}}, "belong together"},
		{Settings{Source: Source{KeyID: "k"}}, "belong together"},
		{Settings{Source: Source{Command: make([]string, maxArgs+1), KeyID: "k"}}, "at most 64"},
		{Settings{Source: Source{Command: []string{"/k"}, KeyID: strings.Repeat("k", maxKeyID+1)}}, "at most 512"},
		{Settings{Source: Source{File: "/k"}, Previous: &Source{File: "/old"}}, ""},
		{Settings{Source: Source{File: "/k"}, Previous: &Source{File: "/k"}}, "the key of server.keyring itself"},
		{Settings{Source: Source{File: "/k"}, Previous: &Source{}}, "it names no key"},
		{Settings{Previous: &Source{File: "/k"}}, "has no key that could follow it"},
		{Settings{Source: Source{File: "/k"}, Previous: &Source{File: "old"}}, "keyring.previous: file is"},
	} {
		err := c.settings.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: got %v, want %q", c.settings, err, c.want)
		}
	}
}

func TestSettings_TheFileIsOutsideOfTheData(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for path, inside := range map[string]bool{
		filepath.Join(data, "keyring"):        true,
		filepath.Join(data, "../data/k"):      true,
		filepath.Join(dir, "link", "keyring"): true,
		filepath.Join(dir, "keyring"):         false,
		data + ".keyring":                     false,
	} {
		for _, s := range []Settings{
			{Source: Source{File: path}},
			{Source: Source{File: "/etc/berth/k"}, Previous: &Source{File: path}},
		} {
			if err := s.CheckPlace(data); (err != nil) != inside {
				t.Errorf("%s: got %v", path, err)
			}
		}
	}
}

func TestAwaitActive_EndsWithTheFirstAttempt(t *testing.T) {
	right, lost := file(t), file(t)
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t)
		cl.server(right).await(t, 0) // no root key yet
		cl.server(right).lead(t.Context())
		for settings, opens := range map[string]bool{right.File: true, lost.File: false} {
			s := cl.server(Settings{Source: Source{File: settings}})
			s.await(t, openTimeout) // nothing opens it
			var ended sync.WaitGroup
			ended.Go(func() { s.await(t, time.Second) })
			time.Sleep(time.Second) // virtual time
			s.update(t.Context())
			ended.Wait()
			if got := s.Ring.Active() != ""; got != opens {
				t.Errorf("%s: the key is open: %t", settings, got)
			}
		}
	})
}

// await checks that AwaitActive ends after some virtual time.
func (s *server) await(t *testing.T, want time.Duration) {
	t.Helper()
	begin := time.Now()
	s.AwaitActive(t.Context())
	if took := time.Since(begin); took != want {
		t.Errorf("it took %s, want %s", took, want)
	}
}
