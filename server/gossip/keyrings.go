package gossip

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/serf/serf"

	"berth/structs"
	"berth/structs/cluster"
)

// maxMessage bounds the text of a server in an error, in bytes.
const maxMessage = 256

// Keyrings shows and changes the keyrings of all servers through one of them.
type Keyrings struct {
	serf     *serf.Serf
	verified error      // set if the gossip of this server is not always encrypted
	turn     sync.Mutex // held during an operation, so that what it has checked still holds
}

// NewKeyrings returns the keyrings of the servers that a gossip knows. verifyIncoming and verifyOutgoing are
// the settings of its Encryption.
func NewKeyrings(s *serf.Serf, verifyIncoming, verifyOutgoing bool) *Keyrings {
	return &Keyrings{serf: s, verified: checkVerified(verifyIncoming, verifyOutgoing)}
}

// Do asks all servers to do an operation and waits for their answers, a few seconds at most. key is in
// base64. The error is invalid for a wrong key. It is a failed precondition where the operation would cut off
// a server, or where the gossip of this server is not always encrypted: nothing has changed then. It is
// internal if a server has not done it. The others may have done it, and the operation may be repeated.
func (k *Keyrings) Do(op cluster.GossipKeyOperation, key string) (*cluster.GossipKeyrings, error) {
	if !k.serf.EncryptionEnabled() {
		return nil, structs.Preconditionf("the gossip of this server is not encrypted: "+
			"set server.encrypt to a key, which \"%s\" prints", cluster.GossipKeyCommand)
	}
	if k.verified != nil {
		return nil, k.verified
	}

	k.turn.Lock()
	defer k.turn.Unlock()
	manager := k.serf.KeyManager()
	if op == cluster.GossipKeyList {
		return k.list()
	}

	_, err := cluster.ParseGossipKey("the key", key)
	if err == nil {
		err = k.check(op, key)
	}
	if err != nil {
		return nil, err
	}

	change := map[cluster.GossipKeyOperation]func(string, *serf.KeyRequestOptions) (*serf.KeyResponse, error){
		cluster.GossipKeyInstall: manager.InstallKeyWithOptions,
		cluster.GossipKeyUse:     manager.UseKeyWithOptions,
		cluster.GossipKeyRemove:  manager.RemoveKeyWithOptions,
	}[op]
	if change == nil {
		return nil, structs.Invalidf("the operation %q on the keys of the gossip is unknown", op)
	}
	return k.ask(op, func(o *serf.KeyRequestOptions) (*serf.KeyResponse, error) { return change(key, o) })
}

// list asks all servers for their keys.
func (k *Keyrings) list() (*cluster.GossipKeyrings, error) {
	return k.ask(cluster.GossipKeyList, k.serf.KeyManager().ListKeysWithOptions)
}

// ask asks all servers by call. Each server sends its answer by all others, too: it may not reach this one.
func (k *Keyrings) ask(
	op cluster.GossipKeyOperation, call func(*serf.KeyRequestOptions) (*serf.KeyResponse, error),
) (*cluster.GossipKeyrings, error) {
	asked := k.named(serf.StatusAlive)
	r, err := call(&serf.KeyRequestOptions{RelayFactor: k.relays()})
	var silent []string
	if r.NumResp < r.NumNodes {
		silent = k.findSilent(asked)
	}
	return answer(op, r, silent, err)
}

// relays returns the number of servers besides this one. The library relays nothing for a higher one.
func (k *Keyrings) relays() uint8 {
	return uint8(min(len(k.serf.Members())-1, math.MaxUint8))
}

// findSilent returns the servers that do not answer a request that asks nothing.
func (k *Keyrings) findSilent(of []string) []string {
	params := k.serf.DefaultQueryParams()
	params.RequestAck = true
	params.RelayFactor = k.relays()
	response, err := k.serf.Query("berth-answer", nil, params)
	if err != nil {
		return nil
	}
	defer response.Close()
	silent := slices.Clone(of)
	for name := range response.AckCh() { // which closes after some seconds
		silent = slices.DeleteFunc(silent, func(s string) bool { return s == name })
		if len(silent) == 0 {
			break
		}
	}
	return silent
}

// check returns an error if a change would cut off a server.
func (k *Keyrings) check(op cluster.GossipKeyOperation, key string) error {
	if failed := k.named(serf.StatusFailed); len(failed) > 0 {
		return structs.Preconditionf("the gossip takes %s for failed, so the change would not reach all "+
			"servers, and nothing has changed: start that server, or remove it by \"berth server force-leave\"",
			strings.Join(failed, ", "))
	}

	now, err := k.list()
	if err != nil {
		return fmt.Errorf("before the change, which has not been made: %w", err)
	}

	switch {
	case op == cluster.GossipKeyInstall && now.Keys[key] == 0 && len(now.Keys) >= MaxKeys:
		return structs.Preconditionf("the servers have %d keys, the most that are allowed: "+
			"remove those that are not in use", len(now.Keys))
	case op == cluster.GossipKeyUse && now.Keys[key] < now.NumNodes:
		return structs.Preconditionf("%d of %d servers have the key: install it first, or again",
			now.Keys[key], now.NumNodes)
	case op == cluster.GossipKeyRemove && now.PrimaryKeys[key] > 0:
		return structs.Preconditionf("it is the primary key of %d of %d servers, with which they encrypt: "+
			"install and use another key first", now.PrimaryKeys[key], now.NumNodes)
	}
	return nil
}

// named returns the names of the servers with a status, in order.
func (k *Keyrings) named(status serf.MemberStatus) (names []string) {
	for _, m := range k.serf.Members() {
		if m.Status == status {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// answer makes an answer of one of the library. The error names the servers that reported a fault, with their
// texts, and the silent ones.
func answer(
	op cluster.GossipKeyOperation, r *serf.KeyResponse, silent []string, err error,
) (*cluster.GossipKeyrings, error) {
	if err == nil {
		return &cluster.GossipKeyrings{
			Messages:    r.Messages,
			Keys:        r.Keys,
			PrimaryKeys: primaries(r),
			NumNodes:    r.NumNodes,
			NumErr:      r.NumErr,
		}, nil
	}

	if r.NumNodes == 0 { // nobody was asked
		return nil, structs.Internalf("the request to %s keys of the gossip: %w", op, err)
	}
	var faults []string
	if r.NumResp < r.NumNodes {
		rest := "all do now: repeat the request" // messages were lost
		if len(silent) > 0 {
			rest = "not " + strings.Join(silent, ", ") +
				" (none does with encrypt_verify_incoming or encrypt_verify_outgoing = false)"
		}
		faults = append(faults, fmt.Sprintf("%d of %d servers have answered, %s", r.NumResp, r.NumNodes, rest))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Messages)) {
		faults = append(faults, name+": "+structs.Cut(r.Messages[name], maxMessage))
	}
	return nil, structs.Internalf("the request to %s keys of the gossip failed at %d of %d servers: %s",
		op,
		r.NumNodes-r.NumResp+r.NumErr, r.NumNodes, strings.Join(faults, "; "))
}

// primaries returns how many servers encrypt with each key. The library counts the answers to a change as "".
func primaries(r *serf.KeyResponse) map[string]int {
	counts := maps.Clone(r.PrimaryKeys)
	delete(counts, "")
	return counts
}
