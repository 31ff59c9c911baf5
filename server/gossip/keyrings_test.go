package gossip

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"

	"berth/structs"
	"berth/structs/gossipkey"
)

// startGossip starts the gossip of one server.
func startGossip(t *testing.T, key string) *Keyrings {
	t.Helper()
	sc, _, err := apply(Encryption{
		Dir:            t.TempDir(),
		Key:            structs.Secret(key),
		VerifyIncoming: true,
		VerifyOutgoing: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	sc.NodeName = "s1.global"
	sc.MemberlistConfig.BindAddr = "127.0.0.1"
	sc.MemberlistConfig.BindPort = 0
	sc.Logger = hclog.NewNullLogger().StandardLogger(nil)
	sc.MemberlistConfig.Logger = sc.Logger
	s, err := serf.Create(sc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return NewKeyrings(s)
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
