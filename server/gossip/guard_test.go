package gossip

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"berth/structs/cluster"
)

// The types of messages of the library, and its requests about keys.
const (
	queryType      = 4
	keyRequestType = 7
	relayType      = 9
)

// patience bounds the wait for an event, which takes milliseconds.
const patience = 20 * time.Second

// third is a key that no server has.
var third = base64.StdEncoding.EncodeToString([]byte("canary-number-03"))

// rejections is the output of a log that sends each warning of a guard.
type rejections chan string

// Write sends a line of the log.
func (r rejections) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("rejected a message")) {
		r <- string(line)
	}
	return len(line), nil
}

// startGuarded starts a server with two keys, of which keys[0] is the primary one.
func startGuarded(t *testing.T, name string, incoming, outgoing bool) (
	s *serf.Serf, sc *serf.Config, rejected rejections,
) {
	t.Helper()
	rejected = make(rejections, 64)
	dir := t.TempDir()
	writeFile(t, dir, fmt.Sprintf("[%q, %q]", keys[0], keys[1]))
	logger := hclog.New(&hclog.LoggerOptions{Output: rejected})
	e := Encryption{Dir: dir, VerifyIncoming: incoming, VerifyOutgoing: outgoing}
	s, sc = startMember(t, name, e, logger)
	return s, sc, rejected
}

// startStranger starts the gossip of somebody without a key.
func startStranger(t *testing.T) *serf.Serf {
	t.Helper()
	s, _ := startMember(t, "stranger", Encryption{Dir: t.TempDir()}, hclog.NewNullLogger())
	return s
}

// message encodes a message of the library.
func message(t *testing.T, of byte, content any) []byte {
	t.Helper()
	out := bytes.NewBuffer([]byte{of})
	if err := codec.NewEncoder(out, &codec.MsgpackHandle{}).Encode(content); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// keyQuery returns the message that asks a server for an operation on its keys, to answer the stranger.
func keyQuery(t *testing.T, stranger *serf.Serf, op cluster.GossipKeyOperation, key string) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	name := map[cluster.GossipKeyOperation]string{
		cluster.GossipKeyList:    "_serf_list-keys",
		cluster.GossipKeyInstall: "_serf_install-key",
		cluster.GossipKeyUse:     "_serf_use-key",
		cluster.GossipKeyRemove:  "_serf_remove-key",
	}[op]
	local := stranger.LocalMember()
	return message(t, queryType, map[string]any{
		"LTime":      100,
		"ID":         len(op),
		"Addr":       []byte(local.Addr),
		"Port":       local.Port,
		"SourceNode": local.Name,
		"Timeout":    patience,
		"Name":       name,
		"Payload":    message(t, keyRequestType, map[string]any{"Key": raw}),
	})
}

// nodeOf returns a server as the receiver of messages.
func nodeOf(s *serf.Serf) *memberlist.Node { return s.Memberlist().LocalNode() }

// awaitRejection waits until a server has rejected a message.
func awaitRejection(t *testing.T, what string, rejected rejections) {
	t.Helper()
	select {
	case <-rejected:
	case <-time.After(patience):
		t.Errorf("%s is not rejected", what)
	}
}

// wantOwnKeys fails the test unless a server has the keys of its start.
func wantOwnKeys(t *testing.T, what string, sc *serf.Config) {
	t.Helper()
	if got := ringOf(sc); !slices.Equal(got, keys) {
		t.Errorf("%s: the server has %d keys, or another primary key", what, len(got))
	}
	stored, err := readKeys(sc.KeyringFile)
	if sc.KeyringFile != "" && (err != nil || len(stored) != len(keys)) {
		t.Errorf("%s: the file has %d keys, error %v", what, len(stored), err)
	}
}

// TestCreate_AStrangerChangesNoKeys has somebody without a key send requests for each operation to a server
// that does not encrypt, or not in both directions.
func TestCreate_AStrangerChangesNoKeys(t *testing.T) {
	t.Parallel()
	for _, outgoing := range []bool{false, true} {
		server, sc, rejected := startGuarded(t, "s1.global", false, outgoing)
		stranger := startStranger(t)
		for op, key := range map[cluster.GossipKeyOperation]string{
			cluster.GossipKeyList:    "",
			cluster.GossipKeyInstall: third,
			cluster.GossipKeyUse:     keys[1],
			cluster.GossipKeyRemove:  keys[1],
		} {
			for how, send := range map[string]func(to *memberlist.Node, message []byte) error{
				"UDP": stranger.Memberlist().SendBestEffort,
				"TCP": stranger.Memberlist().SendReliable,
			} {
				what := fmt.Sprintf("outgoing %t: %s over %s", outgoing, op, how)
				if err := send(nodeOf(server), keyQuery(t, stranger, op, key)); err != nil {
					t.Fatal(err)
				}
				awaitRejection(t, what, rejected)
				wantOwnKeys(t, what, sc)
			}
		}
	}
}

// TestCreate_AMemberWithoutAKeyReadsNoKeys has a stranger join a server that encrypts nothing yet.
func TestCreate_AMemberWithoutAKeyReadsNoKeys(t *testing.T) {
	t.Parallel()
	server, sc, rejected := startGuarded(t, "s1.global", false, false)
	stranger := startStranger(t)
	if _, err := stranger.Join([]string{nodeOf(server).Address()}, true); err != nil {
		t.Fatal(err)
	}

	r, err := stranger.KeyManager().ListKeys()
	if len(r.Keys) != 0 || r.NumNodes != 2 || err == nil {
		t.Errorf("the stranger has read %d keys of %d members, error %v", len(r.Keys), r.NumNodes, err)
	}
	awaitRejection(t, "the list", rejected)
	wantOwnKeys(t, "the list", sc)
}

// TestCreate_NoRequestOfAStrangerReachesAServerThatVerifies sends requests to a server that would forward
// them encrypted: to all, and to one.
func TestCreate_NoRequestOfAStrangerReachesAServerThatVerifies(t *testing.T) {
	t.Parallel()
	verifying, target, _ := startGuarded(t, "s1.global", true, true)
	forwarding, _, rejected := startGuarded(t, "s2.global", false, true)
	if _, err := verifying.Join([]string{nodeOf(forwarding).Address()}, true); err != nil {
		t.Fatal(err)
	}
	stranger := startStranger(t)

	query := keyQuery(t, stranger, cluster.GossipKeyInstall, third)
	addr := net.UDPAddr{IP: nodeOf(verifying).Addr, Port: int(nodeOf(verifying).Port)}
	relay := message(t, relayType, map[string]any{"DestAddr": addr, "DestName": "s1.global"})
	for what, sent := range map[string][]byte{
		"a request to all": query,
		"a request to one": append(relay, query...),
	} {
		if err := stranger.Memberlist().SendReliable(nodeOf(forwarding), sent); err != nil {
			t.Fatal(err)
		}
		awaitRejection(t, what, rejected)
		wantOwnKeys(t, what, target)
	}
}

// TestCreate_AServerTakesKeysOnlyIfItVerifies installs a key at servers with the first one.
func TestCreate_AServerTakesKeysOnlyIfItVerifies(t *testing.T) {
	t.Parallel()
	asking, _, _ := startGuarded(t, "s1.global", true, true)
	for _, verifies := range []bool{true, false} {
		asked, sc, rejected := startGuarded(t, fmt.Sprintf("verifies-%t.global", verifies), true, verifies)
		query := keyQuery(t, asking, cluster.GossipKeyInstall, third)
		if err := asking.Memberlist().SendReliable(nodeOf(asked), query); err != nil {
			t.Fatal(err)
		}
		if !verifies {
			awaitRejection(t, "a request to a server that answers in clear", rejected)
			wantOwnKeys(t, "the request", sc)
			continue
		}

		tick := time.NewTicker(time.Millisecond)
		for deadline := time.Now().Add(patience); len(ringOf(sc)) == len(keys) && time.Now().Before(deadline); {
			<-tick.C
		}
		tick.Stop()
		if got := ringOf(sc); !slices.Contains(got, third) {
			t.Errorf("a server that verifies has %d keys", len(got))
		}
	}
}
