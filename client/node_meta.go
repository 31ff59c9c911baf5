package client

import (
	"maps"
	"strings"
	"sync"
	"unicode"

	"berth/client/store"
	"berth/structs"
	"berth/structs/nodecalls"
)

// metaValues is the record: the values by their keys. A key without a value hides the configuration's.
type metaValues map[string]*string

var metaTable = store.NewTable[metaValues]("node_meta")

// metaKey is the key of the only record.
const metaKey = "dynamic"

// nodeMeta is the metadata of a node that requests set while the agent runs. It lies over the metadata of the
// configuration, and survives restarts of the agent. It is safe for concurrent use.
type nodeMeta struct {
	db *store.DB

	mu      sync.Mutex // it guards dynamic, and is held while a change is written
	dynamic metaValues // never changed in place
}

// loadMeta reads the metadata that requests have set.
func loadMeta(db *store.DB) (*nodeMeta, error) {
	saved, err := metaTable.Get(db, metaKey)
	if err != nil {
		return nil, err
	}
	m := &nodeMeta{db: db, dynamic: metaValues{}}
	if saved != nil {
		m.dynamic = *saved
	}
	return m, nil
}

// Over returns the metadata of the node: the configuration's with the changes of requests.
func (m *nodeMeta) Over(static map[string]string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return mergeMeta(static, m.dynamic)
}

func mergeMeta(static map[string]string, dynamic metaValues) map[string]string {
	all := maps.Clone(static)
	if all == nil && len(dynamic) > 0 {
		all = map[string]string{}
	}
	for key, value := range dynamic {
		if value == nil {
			delete(all, key)
			continue
		}
		all[key] = *value
	}
	return all
}

// Read returns the metadata with its parts.
func (m *nodeMeta) Read(static map[string]string) *nodecalls.NodeMeta {
	m.mu.Lock()
	defer m.mu.Unlock()
	return metaAnswer(static, m.dynamic)
}

func metaAnswer(static map[string]string, dynamic metaValues) *nodecalls.NodeMeta {
	return &nodecalls.NodeMeta{
		Meta:    mergeMeta(static, dynamic),
		Dynamic: dynamic,
		Static:  static,
	}
}

// Apply sets the keys with a value, and removes those with nil: a key of the configuration as well. It
// returns after the disk has the change. The error is invalid for a wrong key, and for more metadata than a
// node may have.
func (m *nodeMeta) Apply(static map[string]string, changes map[string]*string) (*nodecalls.NodeMeta, error) {
	for key := range changes {
		err := checkMetaKey(key)
		if err != nil {
			return nil, err
		}
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.dynamic)
	for key, value := range changes {
		_, configured := static[key]
		if value == nil && !configured {
			delete(next, key)
			continue
		}
		next[key] = value
	}

	merged := mergeMeta(static, next)
	bytes := structs.PairBytes(merged)
	if len(merged) > structs.MaxNodeAttributes || len(next) > structs.MaxNodeAttributes ||
		bytes > structs.MaxNodeBytes {
		return nil, structs.Invalidf("the metadata of the node would have %d entries with %d bytes; "+
			"at most %d with %d are allowed: unset some",
			len(merged), bytes, structs.MaxNodeAttributes, structs.MaxNodeBytes)
	}

	err := metaTable.Put(m.db, metaKey, &next)
	if err != nil {
		return nil, err
	}
	m.dynamic = next
	return metaAnswer(static, next), nil
}

// checkMetaKey rejects a key that no constraint could name as ${meta.KEY}.
func checkMetaKey(key string) error {
	wrong := func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune("${}", r)
	}
	if key == "" || len(key) > structs.MaxName || strings.ContainsFunc(key, wrong) {
		return structs.Invalidf("the key %q of metadata is wrong; expected 1 to %d bytes without blanks, control "+
			"characters, $, { and }", structs.Cut(key, structs.MaxQuoted), structs.MaxName)
	}
	return nil
}
