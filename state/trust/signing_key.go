package trust

import (
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// The bounds of the rows.
const (
	maxKeys   = 64
	maxKeyID  = 64
	maxPublic = 4 << 10 // bytes
)

// Key returns a signing key, nil if there is none.
func SigningKey(tx mvcc.Reader, id string) *access.SigningKey { return schema.SigningKeys.Get(tx, id) }

// SigningKeys yields the signing keys, in the order of their IDs.
func SigningKeys(tx mvcc.Reader) iter.Seq[*access.SigningKey] { return schema.SigningKeys.Scan(tx) }

// ActiveSigningKey returns the key of an algorithm that signs, nil if there is none.
func ActiveSigningKey(tx mvcc.Reader, algorithm string) *access.SigningKey {
	for k := range SigningKeys(tx) {
		if k.Algorithm == algorithm && k.State == access.KeyActive {
			return k
		}
	}
	return nil
}

// Add stores a new key, which signs at once if no key of its algorithm does. A repeat of the same request
// changes nothing.
func SigningKeyAdd(tx *mvcc.WriteTx, p *access.KeyAddRequest) error {
	err := checkKey(p.Key)
	if err == nil {
		err = CheckSealed(tx, p.Key.Private)
	}
	if err != nil {
		return err
	}

	if SigningKey(tx, p.Key.KeyID) != nil {
		return nil
	}
	known := 0
	for k := range SigningKeys(tx) {
		known++
		if k.Algorithm == p.Key.Algorithm && k.State == access.KeyPublished {
			return structs.Conflictf("signing key %s is published, and signs nothing yet", k.KeyID)
		}
	}
	if known >= maxKeys {
		return structs.Preconditionf("there are %d signing keys, the most; wait until the oldest are removed",
			known)
	}

	row := *p.Key
	row.CreateTime = p.Now
	row.ActiveTime = 0
	row.RetireTime = 0
	row.State = access.KeyPublished
	if ActiveSigningKey(tx, row.Algorithm) == nil {
		row.State = access.KeyActive
		row.ActiveTime = max(p.Now, 1)
	}
	schema.SigningKeys.Put(tx, &row)
	return nil
}

func checkKey(k *access.SigningKey) error {
	switch {
	case k == nil || k.Private == nil:
		return structs.Invalidf("there is no signing key")
	case k.KeyID == "" || len(k.KeyID) > maxKeyID:
		return structs.Invalidf("KeyID has %d bytes; expected 1 to %d", len(k.KeyID), maxKeyID)
	case k.Algorithm != access.KeyEdDSA && k.Algorithm != access.KeyRS256:
		return structs.Invalidf("Algorithm is %q; expected %s or %s", structs.Cut(k.Algorithm, structs.MaxQuoted),
			access.KeyEdDSA, access.KeyRS256)
	case len(k.PublicKey) == 0 || len(k.PublicKey) > maxPublic:
		return structs.Invalidf("PublicKey has %d bytes; expected 1 to %d", len(k.PublicKey), maxPublic)
	}
	return nil
}

// SigningKeyActivate makes a published key sign, and retires the one that did. It changes nothing for a key
// that is not published.
func SigningKeyActivate(tx *mvcc.WriteTx, p *access.KeyActivateRequest) error {
	k := SigningKey(tx, p.KeyID)
	if k == nil || k.State != access.KeyPublished {
		return nil
	}

	was := ActiveSigningKey(tx, k.Algorithm)
	if was != nil {
		retired := *was
		retired.State = access.KeyRetired
		retired.RetireTime = max(p.Now, was.ActiveTime, 1) // also if the clock was set back
		schema.SigningKeys.Put(tx, &retired)
	}
	active := *k
	active.State = access.KeyActive
	active.ActiveTime = max(p.Now, 1)
	schema.SigningKeys.Put(tx, &active)
	return nil
}

// SigningKeyRemove deletes a key: the identities that it signed are worth nothing from then on. A missing key
// counts as deleted.
func SigningKeyRemove(tx *mvcc.WriteTx, p *access.KeyRemoveRequest) error {
	k := SigningKey(tx, p.KeyID)
	if k != nil {
		schema.SigningKeys.Delete(tx, k)
	}
	return nil
}

// CheckSigningKeys checks the states of the keys, and that at most one of each algorithm signs.
func CheckSigningKeys(c *schema.Report) {
	schema.CheckIndexes(c, schema.SigningKeys)
	signs := map[string]int{}
	for k := range SigningKeys(c) {
		c.Want(k.Private != nil && len(k.PublicKey) > 0, "signing key %s: a part is missing", k.KeyID)
		switch k.State {
		case access.KeyPublished:
			c.Want(k.ActiveTime == 0 && k.RetireTime == 0, "signing key %s: it is published and has signed", k.KeyID)
		case access.KeyActive:
			signs[k.Algorithm]++
			c.Want(k.ActiveTime != 0 && k.RetireTime == 0, "signing key %s: it signs without a time", k.KeyID)
		case access.KeyRetired:
			c.Want(k.RetireTime != 0, "signing key %s: it is retired without a time", k.KeyID)
		default:
			c.Want(false, "signing key %s: state %q", k.KeyID, k.State)
		}
	}
	for algorithm, n := range signs {
		c.Want(n <= 1, "%d keys of %s sign", n, algorithm)
	}
}

// SigningKeysForget deletes the keys whose private parts are encrypted with a root key that is lost.
func SigningKeysForget(tx *mvcc.WriteTx, rootID string) {
	for _, k := range slices.Collect(SigningKeys(tx)) {
		if k.Private != nil && k.Private.KeyID == rootID {
			schema.SigningKeys.Delete(tx, k)
		}
	}
}

// KeepSigningKeys keeps the keys of the replaced state, because identities that they signed are in use. If
// the archive is an earlier one of the same cluster, its other keys were removed since, and stay so. If it is
// of another cluster, whose nodes have identities of its keys, these go on, and the former ones are retired.
func KeepSigningKeys(tx *mvcc.WriteTx, before mvcc.Reader, now int64) {
	restored := slices.Collect(SigningKeys(tx))
	known := func(k *access.SigningKey) bool { return SigningKey(before, k.KeyID) != nil }
	sameCluster := len(restored) == 0 || slices.ContainsFunc(restored, known)
	if sameCluster {
		for _, k := range restored {
			schema.SigningKeys.Delete(tx, k)
		}
	}

	for was := range SigningKeys(before) {
		k := *was
		if !sameCluster && k.State != access.KeyRetired {
			k.State = access.KeyRetired
			k.ActiveTime = max(k.ActiveTime, 1)
			k.RetireTime = max(now, k.ActiveTime)
		}
		schema.SigningKeys.Put(tx, &k)
	}
}
