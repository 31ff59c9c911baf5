package state

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"berth/structs"
)

// pool holds what many rows have in common, so that they have it once: texts, and whole parts that differ in
// nothing, such as topologies, parameters and drivers. Rows never change, so sharing is safe; what two servers
// share differs and does not matter. It may be used by many goroutines at once. What it holds is bounded, and
// what rows no longer have is driven out by what they have.
type pool struct {
	texts  *cache[string]
	maps   *cache[map[string]string]
	places *part[structs.CSITopology]
	modes  *part[[]*structs.CSIVolumeCapability]
	mounts *part[structs.CSIMountOptions]
	halves *part[[]structs.CSIInstanceKey]

	controllers *part[structs.CSIControllerInfo]
	drivers     *part[map[string]*structs.DriverInfo]
	gives       *part[structs.NodeResources]
	reserves    *part[structs.NodeReservedResources]
	asks        *part[structs.Resources]

	fresh bool // rows come from a decoder: nobody else knows any part of them
}

// part is what rows may have in common as a whole.
type part[T any] struct {
	*cache[T]
	same func(a, b *T) bool
	own  func(*T) T // a copy that nobody else can change
}

func newPart[T any](hash func(*T) uint64, same func(a, b *T) bool, own func(*T) T) *part[T] {
	return &part[T]{newCache(someParts, hash), same, own}
}

// of returns the value that equal values share.
func (p *part[T]) of(v *T) *T {
	if v == nil {
		return nil
	}
	at := p.at(p.hash(v))
	for i := range at {
		if known := at[i].Load(); known != nil && p.same(known, v) {
			return known
		}
	}
	own := p.own(v)
	return p.keep(at, &own)
}

// A writer sees the same few texts again and again; who restores a snapshot sees each identifier in several
// tables.
const (
	fewTexts  = 1 << 13
	manyTexts = 1 << 20
	someParts = 1 << 11
)

// newPool is for a store's writer.
func newPool() *pool { return sizedPool(fewTexts) }

// loadingPool is for the rows of one snapshot.
func loadingPool() *pool {
	p := sizedPool(manyTexts)
	p.fresh = true
	return p
}

func sizedPool(texts int) *pool {
	p := &pool{texts: newCache(texts, hashText), maps: newCache(someParts, func(m *map[string]string) uint64 { return hashMap(*m) })}
	p.places = newPart(func(t *structs.CSITopology) uint64 { return hashMap(t.Segments) },
		func(a, b *structs.CSITopology) bool { return sameMap(a.Segments, b.Segments) },
		func(t *structs.CSITopology) structs.CSITopology {
			return structs.CSITopology{Segments: p.small(t.Segments)}
		})
	p.modes = newPart(hashModes, sameModes, p.ownModes)
	p.mounts = newPart(hashMount, sameMount, func(m *structs.CSIMountOptions) structs.CSIMountOptions { return *m.Copy() })
	p.halves = newPart(hashHalves, func(a, b *[]structs.CSIInstanceKey) bool { return slices.Equal(*a, *b) },
		func(ks *[]structs.CSIInstanceKey) []structs.CSIInstanceKey { return slices.Clone(*ks) })
	p.controllers = newPart(hashValue[structs.CSIControllerInfo], sameValue[structs.CSIControllerInfo], ownValue[structs.CSIControllerInfo])
	p.drivers = newPart(hashDrivers, sameDrivers, p.ownDrivers)
	p.gives = newPart(hashGives, sameGives, ownGives)
	p.reserves = newPart(hashValue[structs.NodeReservedResources], sameValue[structs.NodeReservedResources], ownValue[structs.NodeReservedResources])
	p.asks = newPart(hashValue[structs.Resources], sameValue[structs.Resources], ownValue[structs.Resources])
	return p
}

func sameValue[T comparable](a, b *T) bool { return *a == *b }

func ownValue[T any](v *T) T { return *v }

// share makes each text the one that equal texts share.
func (p *pool) share(texts ...*string) {
	for _, t := range texts {
		if *t != "" {
			*t = p.text(*t)
		}
	}
}

// texts are the texts of a row that others may have, too; nil after the last.
type texts [12]*string

// shareAsBefore shares a row's texts with others. What the row that was there before, nil for none, has as well
// it has from there: most of what is stored again has not changed, and need not be looked for.
func shareAsBefore[T any](p *pool, now, was *T, of func(*T) texts) {
	var before texts
	if was != nil {
		before = of(was)
	}
	for i, t := range of(now) {
		switch {
		case t == nil || *t == "":
		case before[i] != nil && *before[i] == *t:
			*t = *before[i]
		default:
			*t = p.text(*t)
		}
	}
}

func (p *pool) text(t string) string {
	at := p.texts.at(maphash.String(seed, t))
	for i := range at {
		if known := at[i].Load(); known != nil && *known == t {
			return *known
		}
	}
	own := t
	if !p.fresh {
		own = strings.Clone(t) // not a part of something larger
	}
	return *p.texts.keep(at, &own)
}

// small returns the map that equal maps share; each that is empty is one's own.
func (p *pool) small(m map[string]string) map[string]string {
	if len(m) == 0 {
		return maps.Clone(m)
	}
	at := p.maps.at(hashMap(m))
	for i := range at {
		if known := at[i].Load(); known != nil && maps.Equal(*known, m) {
			return *known
		}
	}
	own := p.names(m)
	return *p.maps.keep(at, &own)
}

// names is a map, one's own, made of texts that others share.
func (p *pool) names(m map[string]string) map[string]string {
	own := m
	if m != nil && !p.fresh {
		own = make(map[string]string, len(m))
	}
	for k, v := range m {
		own[p.text(k)] = p.text(v)
	}
	return own
}

// sameMap tells nil from empty, as the encoding does.
func sameMap(a, b map[string]string) bool { return (a == nil) == (b == nil) && maps.Equal(a, b) }
