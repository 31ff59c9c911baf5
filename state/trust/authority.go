package trust

import (
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/clustertime"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

// MaxAuthorities is the most authorities that the cluster trusts: each handshake sends the cross certificates
// of all but the first.
const MaxAuthorities = 16

// Authorities yields the authorities of the cluster, also untrusted ones.
func Authorities(tx mvcc.Reader) iter.Seq[*cluster.Authority] { return schema.Authorities.Scan(tx) }

// ActiveAuthority returns the authority that signs, nil if the cluster has none.
func ActiveAuthority(tx mvcc.Reader) *cluster.Authority {
	for a := range schema.Authorities.Scan(tx) {
		if a.RetireTime == 0 {
			return a
		}
	}
	return nil
}

// TrustedAuthorities returns the authorities of some rows that are trusted at a time (UnixNano): the one that
// signs, then those before it, the latest first.
func TrustedAuthorities(rows []*cluster.Authority, now int64) (trusted []*cluster.Authority) {
	byID := make(map[string]*cluster.Authority, len(rows))
	for _, a := range rows {
		byID[a.ID] = a
		if a.RetireTime == 0 {
			trusted = append(trusted, a)
		}
	}
	if len(trusted) == 0 {
		return nil
	}
	for _, id := range trusted[0].Formers {
		a := byID[id]
		if a != nil && isTrusted(a, now) {
			trusted = append(trusted, a)
		}
	}
	return trusted
}

func isTrusted(a *cluster.Authority, now int64) bool {
	return a.RetireTime == 0 || now < a.RetireTime+int64(RenewWithin)
}

// AuthoritySet makes an authority the one that signs, and deletes authorities that are no longer trusted. It
// does nothing for one that the cluster has already.
func AuthoritySet(tx *mvcc.WriteTx, p *cluster.AuthorityRequest) error {
	if schema.Authorities.Get(tx, p.ID) != nil {
		return nil
	}
	if p.ID == "" || p.CertPEM == "" || p.Key == nil || (p.FormerID == "") != (p.CrossPEM == "") {
		return structs.Invalidf("the authority has no ID, no certificate, no key or no cross certificate")
	}
	err := CheckSealed(tx, p.Key)
	if err != nil {
		return err
	}

	former := ActiveAuthority(tx)
	formerID := ""
	if former != nil {
		formerID = former.ID
	}
	if formerID != p.FormerID {
		return structs.Conflictf("the authority %q signs, and not %q: another one has replaced it meanwhile; "+
			"see `berth tls ca list`", formerID, structs.Cut(p.FormerID, structs.MaxQuoted))
	}
	known := 0
	ended := clustertime.Earlier(tx, p.Now)
	for _, a := range slices.Collect(schema.Authorities.Scan(tx)) {
		if !isTrusted(a, ended) {
			schema.Authorities.Delete(tx, a)
			continue
		}
		known++
	}
	if known >= MaxAuthorities {
		return structs.Preconditionf("the machines trust %d authorities; at most that many are allowed: wait "+
			"until the oldest is no longer trusted, or remove it with `berth tls ca remove`", known)
	}
	row := &cluster.Authority{
		ID:         p.ID,
		CertPEM:    p.CertPEM,
		Key:        p.Key,
		CrossPEM:   p.CrossPEM,
		CreateTime: p.Now,
	}
	if former != nil {
		retired := *former
		retired.RetireTime = max(p.Now, former.CreateTime, 1) // also if the clock was set back
		schema.Authorities.Put(tx, &retired)
		formers := append([]string{former.ID}, former.Formers...)
		row.Formers = formers[:min(len(formers), cluster.MaxFormers)]
	}
	schema.Authorities.Put(tx, row)
	return nil
}

// AuthorityRemove deletes a retired authority, and those before it: a holder of one of them would take its
// certificates because of its cross certificate. It also deletes the join tokens that name them: a machine
// would show such a token to a holder of their keys. The error is not-found, or precondition for the one that
// signs.
func AuthorityRemove(tx *mvcc.WriteTx, p *cluster.AuthorityRemoveRequest) error {
	a := schema.Authorities.Get(tx, p.ID)
	if a == nil {
		return structs.NotFoundf("there is no authority %q: see `berth tls ca list`",
			structs.Cut(p.ID, structs.MaxQuoted))
	}
	if a.RetireTime == 0 {
		return structs.Preconditionf("the authority %s signs: replace it first, with `berth tls ca replace`", a.ID)
	}
	for _, t := range TokensOfAuthority(tx, a.ID) {
		schema.JoinTokens.Delete(tx, t)
	}
	schema.Authorities.Delete(tx, a)
	for _, id := range a.Formers {
		before := schema.Authorities.Get(tx, id)
		if before != nil {
			schema.Authorities.Delete(tx, before)
		}
	}
	return nil
}

// TokensOfAuthority returns the join tokens that name an authority or one before it.
func TokensOfAuthority(tx mvcc.Reader, id string) (tokens []*cluster.JoinToken) {
	a := schema.Authorities.Get(tx, id)
	for t := range schema.JoinTokens.Scan(tx) {
		if a != nil && (t.Authority == a.ID || slices.Contains(a.Formers, t.Authority)) {
			tokens = append(tokens, t)
		}
	}
	return tokens
}

// Keep keeps the revocations and the authorities of the replaced state.
func Keep(tx *mvcc.WriteTx, before mvcc.Reader, now int64) {
	KeepRevocations(tx, before)
	KeepAuthorities(tx, before, now)
}

// KeepAuthorities keeps the authorities of the replaced state if they are later than the restored ones: the
// machines trust no others, and the key of a removed one may be stolen. If the archive is of another cluster,
// its authority signs, because its machines trust no other, and the authorities of the replaced state are
// retired: the servers and machines that are there have certificates of them.
func KeepAuthorities(tx *mvcc.WriteTx, before mvcc.Reader, now int64) {
	was, restored := ActiveAuthority(before), ActiveAuthority(tx)
	switch {
	case was == nil:
	case restored == nil || restored.ID == was.ID || slices.Contains(was.Formers, restored.ID):
		for _, a := range slices.Collect(schema.Authorities.Scan(tx)) {
			schema.Authorities.Delete(tx, a)
		}
		for a := range schema.Authorities.Scan(before) {
			schema.Authorities.Put(tx, copyAuthority(a))
		}
	case !slices.Contains(restored.Formers, was.ID): // else the archive is the later one
		retireAuthorities(tx, before, now)
	}
}

// retireAuthorities adds the authorities of another state as ones before the one that signs.
func retireAuthorities(tx *mvcc.WriteTx, other mvcc.Reader, now int64) {
	for a := range schema.Authorities.Scan(other) {
		retired := copyAuthority(a)
		if a.RetireTime == 0 {
			retired.RetireTime = max(now, a.CreateTime, 1)
		}
		if schema.Authorities.Get(tx, a.ID) == nil {
			schema.Authorities.Put(tx, retired)
		}
	}
	active := copyAuthority(ActiveAuthority(tx))
	was := ActiveAuthority(other)
	formers := slices.Concat(active.Formers, []string{was.ID}, was.Formers)
	active.Formers = formers[:min(len(formers), cluster.MaxFormers)]
	schema.Authorities.Put(tx, active)
}

// AuthoritiesForget deletes the authorities if the key of the one that signs is encrypted with a root key
// that is lost.
func AuthoritiesForget(tx *mvcc.WriteTx, keyID string) {
	active := ActiveAuthority(tx)
	if active == nil || active.Key.KeyID != keyID {
		return
	}
	for _, a := range slices.Collect(schema.Authorities.Scan(tx)) {
		schema.Authorities.Delete(tx, a)
	}
}

// checkAuthorities checks the authorities.
func checkAuthorities(c *schema.Report) {
	active := 0
	for a := range schema.Authorities.Scan(c) {
		if a.RetireTime == 0 {
			active++
		}
		c.Want(a.Key != nil && a.CertPEM != "", "authority %s: it has no key or no certificate", a.ID)
		c.Want(a.CrossPEM == "" || len(a.Formers) > 0, "authority %s: it has replaced %d others, "+
			"and a cross certificate of %d bytes", a.ID, len(a.Formers), len(a.CrossPEM))
	}
	c.Want(active <= 1, "%d authorities sign; expected one", active)
}

// sealedOfAuthority lists the encrypted key of an authority (see SealedTables).
func sealedOfAuthority(a *cluster.Authority) []SealedField {
	return []SealedField{{
		Place: cluster.AuthorityPlace(a.ID),
		Value: a.Key,
		Set:   func(s *structs.Sealed) { a.Key = s },
	}}
}

func copyAuthority(a *cluster.Authority) *cluster.Authority { return new(*a) }
