package quota

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/structs"
)

// Excess is a bound that a change exceeds.
type Excess struct {
	Quota string
	Of    Dimension
	Used  int64 // before the change
	Asked int64 // by the change
	Most  int64 // negative: nothing is allowed
}

// Exceeds returns the first bound of a quota that changes together exceed, nil if there is none. A dimension
// that they do not raise is never exceeded: a lower bound ends nothing, and lets replacements pass.
func Exceeds(s *Spec, used Amounts, changes ...Amounts) *Excess {
	for _, l := range s.Limits {
		for _, b := range boundsOf(l.RegionLimit) {
			e := &Excess{
				Quota: s.Name,
				Of:    b.of,
				Used:  used.at(b.of),
				Most:  b.most,
			}
			for _, change := range changes {
				e.Asked += change.at(b.of)
			}
			if e.Asked > 0 && e.Used+e.Asked > max(e.Most, 0) {
				return e
			}
		}
	}
	return nil
}

// Plan counts changes that a plan has made already as used, and no more as asked.
func (e *Excess) Plan(changes Amounts) {
	planned := changes.at(e.Of)
	e.Used += planned
	e.Asked -= planned
}

// BoundsDevices reports whether the quota bounds devices.
func BoundsDevices(s *Spec) bool {
	for _, l := range s.Limits {
		if l.RegionLimit != nil && len(l.RegionLimit.Devices) > 0 {
			return true
		}
	}
	return false
}

// BoundsBytes reports whether the quota bounds the bytes of a volume.
func BoundsBytes(s *Spec, v *structs.CSIVolume) bool {
	ofPlugin := ofKind(KindBytes, OfPlugin, v.PluginID)
	ofClass := ofKind(KindBytes, OfClass, v.Class)
	for _, l := range s.Limits {
		for _, b := range boundsOf(l.RegionLimit) {
			if b.of.Kind == KindBytes || b.of == ofPlugin || b.of == ofClass {
				return true
			}
		}
	}
	return false
}

// String returns the figures: "quota team: memory: 512 MiB used, 256 MiB asked, 600 MiB allowed".
func (e *Excess) String() string {
	return fmt.Sprintf("quota %s: %s", e.Quota, e.Figures())
}

// Figures returns the figures without the name of the quota.
func (e *Excess) Figures() string {
	return fmt.Sprintf("%s: %s used, %s asked, %s allowed", e.Of, e.Of.format(e.Used), e.Of.format(e.Asked),
		e.Of.format(max(e.Most, 0)))
}

// String returns the name of a dimension, for users.
func (d Dimension) String() string {
	if d.Name == "" {
		return d.Kind
	}
	return d.Kind + " " + structs.Cut(d.Name, structs.MaxQuoted)
}

func (d Dimension) format(n int64) string {
	switch {
	case d.Kind == KindCPU:
		return fmt.Sprintf("%d MHz", n)
	case d.Kind == KindMemory || d.Kind == KindMemoryMax:
		return fmt.Sprintf("%d MiB", n)
	case strings.HasPrefix(d.Kind, KindBytes):
		return structs.FormatBytes(n)
	}
	return fmt.Sprint(n)
}

// selects reports whether the name of a demand selects a device group by its ID.
func selects(demand, group string) bool {
	parts := strings.SplitN(group, "/", 3)
	return len(parts) == 3 && (&structs.RequestedDevice{Name: demand}).Matches(&structs.NodeDeviceResource{
		Vendor: parts[0],
		Type:   parts[1],
		Name:   parts[2],
	})
}

// Show returns a limit with amounts in place of the bounds: in total, and besides of each device group and of
// each plugin and class that is in use or bounded.
func Show(l *Limit, amounts Amounts) *Limit {
	b := &Bounds{
		CPU:         int(amounts[Dimension{Kind: KindCPU}]),
		MemoryMB:    int(amounts[Dimension{Kind: KindMemory}]),
		MemoryMaxMB: int(amounts[Dimension{Kind: KindMemoryMax}]),
		Allocations: int(amounts[Dimension{Kind: KindAllocations}]),
		Devices:     []*DeviceBound{},
		Storage: &StorageBound{
			Volumes:     int(amounts[Dimension{Kind: KindVolumes}]),
			VolumeBytes: amounts[Dimension{Kind: KindBytes}],
			Of:          []*VolumeBound{},
		},
	}

	names := map[Dimension]bool{}
	for d := range amounts {
		names[d] = d.Name != ""
	}
	for _, bound := range boundsOf(l.RegionLimit) {
		names[bound.of] = bound.of.Name != ""
	}
	for _, d := range slices.SortedFunc(maps.Keys(names), compareNames) {
		if names[d] && d.Kind == KindDevice {
			b.Devices = append(b.Devices, &DeviceBound{Name: d.Name, Count: int(amounts.at(d))})
		}
		for _, kind := range Kinds {
			if d == ofKind(KindVolumes, kind, d.Name) {
				b.Storage.Of = append(b.Storage.Of, &VolumeBound{
					Kind:    kind,
					Name:    d.Name,
					Volumes: int(amounts[d]),
					Bytes:   amounts[ofKind(KindBytes, kind, d.Name)],
				})
			}
		}
	}
	return &Limit{Region: l.Region, RegionLimit: b, Hash: l.Hash}
}

func compareNames(a, b Dimension) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
}

// Bounded is a bound with its use.
type Bounded struct {
	Of         Dimension
	Used, Most int64 // Most is 0 if nothing is allowed
}

// Compare returns the bounds of a quota with the use of them.
func Compare(s *Spec, used Amounts) (all []Bounded) {
	for _, l := range s.Limits {
		for _, b := range boundsOf(l.RegionLimit) {
			all = append(all, Bounded{Of: b.of, Used: used.at(b.of), Most: max(b.most, 0)})
		}
	}
	return all
}

// Figure is one bound with its use, for a table.
type Figure struct {
	Of         string // the dimension
	Used, Most string // with their units; Most is "0" if nothing is allowed
}

// Figures returns the bounds of a limit with the use of them.
func Figures(l, used *Limit) []Figure {
	var all []Figure
	amounts := amountsOf(used.RegionLimit)
	for _, b := range boundsOf(l.RegionLimit) {
		all = append(all, Figure{
			Of:   b.of.String(),
			Used: b.of.format(amounts[b.of]),
			Most: b.of.format(max(b.most, 0)),
		})
	}
	return all
}

// amountsOf returns the numbers of a use by their dimensions.
func amountsOf(b *Bounds) Amounts {
	all := Amounts{}
	for _, used := range boundsOf(b) {
		all[used.of] = used.most
	}
	return all
}

// Digest returns the hash of a limit: equal limits have equal hashes.
func Digest(l *Limit) []byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q", l.Region)
	for _, b := range boundsOf(l.RegionLimit) {
		_, _ = fmt.Fprintf(h, "\n%q %q %d", b.of.Kind, b.of.Name, b.most)
	}
	return h.Sum(nil)
}
