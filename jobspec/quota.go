package jobspec

import (
	"fmt"

	"berth/structs/quota"
)

// quotaFile is the body of the file of a quota.
type quotaFile struct {
	Name        string        `hcl:"name,required"`
	Description string        `hcl:"description"`
	Limits      []*quotaLimit `hcl:"limit,block"`
}

type quotaLimit struct {
	Region      string       `hcl:"region"`
	RegionLimit *quotaBounds `hcl:"region_limit,block"`
}

func (quotaLimit) Unsupported() string { return "variables_limit" }

type quotaBounds struct {
	CPU         int            `hcl:"cpu"`
	Cores       noBound        `hcl:"cores"`
	MemoryMB    int            `hcl:"memory"`
	MemoryMaxMB int            `hcl:"memory_max"`
	Allocations int            `hcl:"allocations"`
	Devices     []*quotaDevice `hcl:"device,block"`
	Storage     *quotaStorage  `hcl:"storage,block"`
}

func (quotaBounds) Unsupported() string { return "node_pool numa secrets" }

// noBound is a bound on things that berth does not have: the file of the dialect's template has a 0.
type noBound int

// Expected describes the value.
func (*noBound) Expected() string { return "0 (no bound)" }

// UnmarshalText reads the value.
func (b *noBound) UnmarshalText(text []byte) error {
	if string(text) != "0" {
		return fmt.Errorf("%.40q bounds nothing that berth has; expected %s", text, b.Expected())
	}
	return nil
}

type quotaDevice struct {
	Name  string `hcl:",label"`
	Count int    `hcl:"count"`
}

type quotaStorage struct {
	Volumes int             `hcl:"volumes"`
	Bytes   byteSize        `hcl:"bytes"`
	Plugins []*quotaVolumes `hcl:"plugin,block"`
	Classes []*quotaVolumes `hcl:"class,block"`
}

func (quotaStorage) Unsupported() string { return "host_volumes variables" }

type quotaVolumes struct {
	Name    string   `hcl:",label"`
	Volumes int      `hcl:"volumes"`
	Bytes   byteSize `hcl:"bytes"`
}

// ReadQuota reads the file of a quota in HCL. Its results are like ReadVolume's.
func ReadQuota(filename string, src []byte) (*File[*quota.Spec], error) {
	return readFile(filename, src, "quota", (*quotaFile).row)
}

// row converts the file. A quota has no block around it.
func (f *quotaFile) row() *quota.Spec {
	s := &quota.Spec{Name: f.Name, Description: f.Description}
	for _, l := range f.Limits {
		limit := &quota.Limit{Region: l.Region}
		if l.RegionLimit != nil {
			limit.RegionLimit = l.RegionLimit.row()
		}
		s.Limits = append(s.Limits, limit)
	}
	return s
}

func (b *quotaBounds) row() *quota.Bounds {
	bounds := &quota.Bounds{
		CPU:         b.CPU,
		MemoryMB:    b.MemoryMB,
		MemoryMaxMB: b.MemoryMaxMB,
		Allocations: b.Allocations,
	}
	for _, d := range b.Devices {
		bounds.Devices = append(bounds.Devices, (*quota.DeviceBound)(d))
	}

	if b.Storage != nil {
		bounds.Storage = &quota.StorageBound{
			Volumes:     b.Storage.Volumes,
			VolumeBytes: int64(b.Storage.Bytes),
		}
		for _, p := range b.Storage.Plugins {
			bounds.Storage.Of = append(bounds.Storage.Of, p.row(quota.OfPlugin))
		}
		for _, c := range b.Storage.Classes {
			bounds.Storage.Of = append(bounds.Storage.Of, c.row(quota.OfClass))
		}
	}

	return bounds
}

func (v *quotaVolumes) row(kind string) *quota.VolumeBound {
	return &quota.VolumeBound{Kind: kind, Name: v.Name, Volumes: v.Volumes, Bytes: int64(v.Bytes)}
}
