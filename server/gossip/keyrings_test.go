package gossip

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"berth/structs"
	"berth/structs/cluster"
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
	return startOn(t, name, e, func(net memberlist.Transport) memberlist.Transport { return net }, logger)
}

// startOn starts a member on a transport that is made of that of the loopback interface.
func startOn(
	t *testing.T, name string, e Encryption, on func(memberlist.Transport) memberlist.Transport,
	logger hclog.Logger,
) (*serf.Serf, *serf.Config) {
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
	mc.Transport = on(transport)
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
	_, err := k.Do(cluster.GossipKeyUse, keys[1])
	wantFault(t, "the use of a key of nobody", err, structs.KindPrecondition, "0 of 1 servers have the key")
	_, err = k.Do(cluster.GossipKeyRemove, keys[0])
	wantFault(t, "the removal of the primary key", err, structs.KindPrecondition, "the primary key of 1 of 1")
	_, err = k.Do(cluster.GossipKeyInstall, keys[0][1:])
	wantFault(t, "a wrong key", err, structs.KindInvalid, cluster.GossipKeyCommand)
	_, err = k.Do("forget", keys[0])
	wantFault(t, "an unknown operation", err, structs.KindInvalid, "unknown")
	_, err = startGossip(t, "").Do(cluster.GossipKeyList, "")
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
		_, err := k.Do(cluster.GossipKeyList, "")
		wantFault(t, "the list", err, structs.KindPrecondition, c.setting)
		_, err = k.Do(cluster.GossipKeyInstall, keys[1])
		wantFault(t, "a new key", err, structs.KindPrecondition, "true on all servers")
	}
	if got := ringOf(sc); !slices.Equal(got, keys[:1]) {
		t.Errorf("the server has %d keys", len(got))
	}
}

func TestKeyrings_BoundTheNumberOfKeys(t *testing.T) {
	k := startGossip(t, keys[0])
	for range MaxKeys - 1 {
		if _, err := k.Do(cluster.GossipKeyInstall, cluster.NewGossipKey()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := k.Do(cluster.GossipKeyInstall, keys[1])
	wantFault(t, "one key more", err, structs.KindPrecondition, "the servers have 16 keys")
	rings, err := k.Do(cluster.GossipKeyInstall, keys[0])
	if err != nil || len(rings.PrimaryKeys) != 0 || rings.NumNodes != 1 {
		t.Errorf("a key that they have: got %+v, error %v", rings, err)
	}
	rings, err = k.Do(cluster.GossipKeyList, "")
	if err != nil || len(rings.Keys) != MaxKeys || len(rings.PrimaryKeys) != 1 ||
		rings.PrimaryKeys[keys[0]] != 1 {
		t.Errorf("got %+v, error %v", rings, err)
	}
}

func TestAnswer_NamesTheServersThatFail(t *testing.T) {
	fault := errors.New("some have failed")
	for _, c := range []struct {
		silent []string
		r      serf.KeyResponse
		want   string
	}{
		{nil, serf.KeyResponse{}, "the request to use keys of the gossip: some have failed"},
		{nil, serf.KeyResponse{NumNodes: 3, NumResp: 2}, "2 of 3 servers have answered, all do now"},
		{
			[]string{"s2.global", "s3.global"}, serf.KeyResponse{NumNodes: 3, NumResp: 1},
			"failed at 2 of 3 servers: 1 of 3 servers have answered, not s2.global, s3.global (none does with",
		},
		{
			nil, serf.KeyResponse{
				NumNodes: 3,
				NumResp:  3,
				NumErr:   2,
				Messages: map[string]string{"s3.global": "no keyring", "s1.global": "the disk is full"},
			},
			"failed at 2 of 3 servers: s1.global: the disk is full; s3.global: no keyring",
		},
	} {
		_, err := answer(cluster.GossipKeyUse, &c.r, c.silent, fault)
		wantFault(t, c.want, err, structs.KindInternal, c.want)
	}
}

// wire is a transport that drops in silence what it sends to some addresses.
type wire struct {
	memberlist.Transport
	cut sync.Map // has the addresses
}

func (w *wire) WriteTo(b []byte, addr string) (time.Time, error) {
	if _, cut := w.cut.Load(addr); cut {
		return time.Now(), nil
	}
	return w.Transport.WriteTo(b, addr)
}

func (w *wire) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if _, cut := w.cut.Load(addr); cut {
		return nil, syscall.ETIMEDOUT
	}
	return w.Transport.DialTimeout(addr, timeout)
}

// wired is a server on a wire.
type wired struct {
	*Keyrings
	wire *wire
}

// startThree starts three servers that know each other and have many keys: s1.global, s2.global and
// s3.global.
func startThree(t *testing.T) (three [3]wired) {
	t.Helper()
	texts := []string{strconv.Quote(keys[0])}
	for len(texts) < MaxKeys {
		texts = append(texts, strconv.Quote(cluster.NewGossipKey()))
	}
	for i := range three {
		e := Encryption{Dir: t.TempDir(), VerifyIncoming: true, VerifyOutgoing: true}
		writeFile(t, e.Dir, "["+strings.Join(texts, ", ")+"]")
		s, _ := startOn(t, fmt.Sprintf("s%d.global", i+1), e, func(net memberlist.Transport) memberlist.Transport {
			three[i].wire = &wire{Transport: net}
			return three[i].wire
		}, hclog.NewNullLogger())
		three[i].Keyrings = NewKeyrings(s, true, true)
	}
	for _, other := range three[1:] {
		_, err := three[0].serf.Join([]string{nodeOf(other.serf).Address()}, true)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range three {
		await(t, "each server knows the others", func() error {
			if known := len(s.named(serf.StatusAlive)); known != len(three) {
				return fmt.Errorf("%d are known", known)
			}
			return nil
		})
	}
	return three
}

// cutFrom drops what a server sends to another.
func (w wired) cutFrom(other wired) { w.wire.cut.Store(nodeOf(other.serf).Address(), true) }

// Two servers do not reach each other. The third one carries the answer of each to the other. The library
// draws those that do so, and may draw none.
func TestKeyrings_ReachAServerByAnother(t *testing.T) {
	t.Parallel()
	three := startThree(t)
	three[1].cutFrom(three[2])
	three[2].cutFrom(three[1])
	rings, err := three[2].Do(cluster.GossipKeyList, "")
	for range 3 {
		if err != nil {
			rings, err = three[2].Do(cluster.GossipKeyList, "")
		}
	}
	if err != nil || rings.NumNodes != 3 || len(rings.Keys) != MaxKeys || rings.Keys[keys[0]] != 3 {
		t.Errorf("got %+v, error %v", rings, err)
	}
}

func TestKeyrings_NameTheServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	three := startThree(t)
	three[1].cutFrom(three[0])
	three[1].cutFrom(three[2])
	_, err := three[2].Do(cluster.GossipKeyList, "")
	wantFault(t, "the list", err, structs.KindInternal, "of 3 servers have answered, not s2.global (")
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
	for _, op := range []cluster.GossipKeyOperation{cluster.GossipKeyInstall, cluster.GossipKeyUse} {
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
