package gossip

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"berth/structs"
	"berth/structs/gossipkey"
)

// startGossip starts the gossip of one server, which encrypts in both directions if it has a key.
func startGossip(t *testing.T, key string) *Keyrings {
	t.Helper()
	e := Encryption{Dir: t.TempDir(), Key: structs.Secret(key), VerifyIncoming: true, VerifyOutgoing: true}
	s, _ := startMember(t, "s1.global", e, hclog.NewNullLogger())
	return NewKeyrings(s, true, true)
}

// startMember starts a member of a gossip on the loopback interface.
func startMember(t *testing.T, name string, e Encryption, logger hclog.Logger) (*serf.Serf, *serf.Config) {
	t.Helper()
	sc, _, err := apply(e)
	if err != nil {
		t.Fatal(err)
	}
	sc.NodeName = name
	sc.Logger = hclog.NewNullLogger().StandardLogger(nil)
	mc := sc.MemberlistConfig
	mc.Logger = sc.Logger

	transport, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{"127.0.0.1"},
		Logger:    sc.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	mc.Transport = transport
	mc.BindAddr = "127.0.0.1"
	mc.BindPort = transport.GetAutoBindPort()
	mc.AdvertisePort = mc.BindPort

	s, err := Create(sc, logger)
	if err != nil {
		t.Fatal(errors.Join(err, transport.Shutdown()))
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return s, sc
}

func wantFault(t *testing.T, what string, err error, kind structs.Kind, text string) {
	t.Helper()
	if !structs.IsKind(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v (%s), want %q", what, err, structs.KindOf(err), text)
		return
	}
	checkHidden(t, what, err.Error())
}

func TestKeyrings_RejectWhatWouldCutOffAServer(t *testing.T) {
	k := startGossip(t, keys[0])
	_, err := k.Do(gossipkey.Use, keys[1])
	wantFault(t, "the use of a key of nobody", err, structs.KindPrecondition, "0 of 1 servers have the key")
	_, err = k.Do(gossipkey.Remove, keys[0])
	wantFault(t, "the removal of the primary key", err, structs.KindPrecondition, "the primary key of 1 of 1")
	_, err = k.Do(gossipkey.Install, keys[0][1:])
	wantFault(t, "a wrong key", err, structs.KindInvalid, gossipkey.Generate)
	_, err = k.Do("forget", keys[0])
	wantFault(t, "an unknown operation", err, structs.KindInvalid, "unknown")
	_, err = startGossip(t, "").Do(gossipkey.List, "")
	wantFault(t, "a server without a key", err, structs.KindPrecondition, "not encrypted")
}

func TestKeyrings_AreNotSentWithoutEncryption(t *testing.T) {
	e := Encryption{Dir: t.TempDir(), Key: structs.Secret(keys[0])}
	s, sc := startMember(t, "s1.global", e, hclog.NewNullLogger())
	for _, c := range []struct {
		incoming, outgoing bool
		setting            string
	}{
		{false, false, "server.encrypt_verify_incoming = false"},
		{false, true, "server.encrypt_verify_incoming = false"},
		{true, false, "server.encrypt_verify_outgoing = false"},
	} {
		k := NewKeyrings(s, c.incoming, c.outgoing)
		_, err := k.Do(gossipkey.List, "")
		wantFault(t, "the list", err, structs.KindPrecondition, c.setting)
		_, err = k.Do(gossipkey.Install, keys[1])
		wantFault(t, "a new key", err, structs.KindPrecondition, "true on all servers")
	}
	if got := ringOf(sc); !slices.Equal(got, keys[:1]) {
		t.Errorf("the server has %d keys", len(got))
	}
}

func TestKeyrings_BoundTheNumberOfKeys(t *testing.T) {
	k := startGossip(t, keys[0])
	for range MaxKeys - 1 {
		if _, err := k.Do(gossipkey.Install, gossipkey.New()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := k.Do(gossipkey.Install, keys[1])
	wantFault(t, "one key more", err, structs.KindPrecondition, "the servers have 16 keys")
	rings, err := k.Do(gossipkey.Install, keys[0])
	if err != nil || len(rings.PrimaryKeys) != 0 || rings.NumNodes != 1 {
		t.Errorf("a key that they have: got %+v, error %v", rings, err)
	}
	rings, err = k.Do(gossipkey.List, "")
	if err != nil || len(rings.Keys) != MaxKeys || len(rings.PrimaryKeys) != 1 ||
		rings.PrimaryKeys[keys[0]] != 1 {
		t.Errorf("got %+v, error %v", rings, err)
	}
}

func TestAnswer_NamesTheServersThatFail(t *testing.T) {
	fault := errors.New("some have failed")
	for _, c := range []struct {
		r    serf.KeyResponse
		want string
	}{
		{serf.KeyResponse{}, "the request to use keys of the gossip: some have failed"},
		{serf.KeyResponse{NumNodes: 3, NumResp: 2}, "failed at 1 of 3 servers: 2 of 3 servers have answered"},
		{
			serf.KeyResponse{
				NumNodes: 3,
				NumResp:  3,
				NumErr:   2,
				Messages: map[string]string{"s3.global": "no keyring", "s1.global": "the disk is full"},
			},
			"failed at 2 of 3 servers: s1.global: the disk is full; s3.global: no keyring",
		},
	} {
		_, err := answer(gossipkey.Use)(&c.r, fault)
		wantFault(t, c.want, err, structs.KindInternal, c.want)
	}
}

func TestPrimaryKey_IsTheOneInUse(t *testing.T) {
	dir := t.TempDir()
	key, err := PrimaryKey(dir)
	if err != nil || key != "" {
		t.Fatalf("a server without a key has one, or %v", err)
	}
	e := Encryption{Dir: dir, Key: structs.Secret(keys[0]), VerifyIncoming: true, VerifyOutgoing: true}
	s, _ := startMember(t, "s1.global", e, hclog.NewNullLogger())
	k := NewKeyrings(s, true, true)
	for _, op := range []gossipkey.Operation{gossipkey.Install, gossipkey.Use} {
		_, err = k.Do(op, keys[1])
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err = PrimaryKey(dir)
	if err != nil || string(key) != keys[1] {
		t.Errorf("it is another one, or %v", err)
	}
}
