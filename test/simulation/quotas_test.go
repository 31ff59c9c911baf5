package simulation

import (
	"fmt"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// theQuota is the one quota. Its bounds are only raised, so that it is never exceeded.
const theQuota = "small"

// beginQuotas makes the namespaces. The team has the quota, and in some runs the default namespace shares it.
func (w *world) beginQuotas() {
	w.bounds = quota.Bounds{
		Allocations: w.boundOf(3, 12),
		CPU:         w.boundOf(400, 3000),
		MemoryMB:    w.boundOf(400, 3000),
		Storage:     &quota.StorageBound{Volumes: len(csiVolumes) + w.IntN(3)},
	}
	if w.chance(3) {
		w.bounds.Devices = []*quota.DeviceBound{{Name: "gpu", Count: 1 + w.IntN(3)}}
	}
	w.putQuota()
	w.applyNamespace(pluginNamespace, "")
	w.applyNamespace(teamNamespace, theQuota)
	if w.chance(2) {
		w.applyNamespace(structs.DefaultNamespace, theQuota)
	}
}

// boundOf draws a bound from least on, or none.
func (w *world) boundOf(least, most int) int {
	if w.chance(3) {
		return 0
	}
	return least + w.IntN(most-least)
}

func (w *world) putQuota() {
	b := w.bounds
	w.record("quota: %d allocations, %d MHz, %d MiB, devices %v, %d volumes", b.Allocations, b.CPU, b.MemoryMB,
		len(b.Devices), b.Storage.Volumes)
	err := operate(w, quota.SpecPut, &quota.SpecPutRequest{Quota: &quota.Spec{
		Name:   theQuota,
		Limits: []*quota.Limit{{Region: structs.DefaultRegion, RegionLimit: &b}},
	}})
	if err != nil {
		w.fail("the quota is rejected: %v", err)
	}
}

func (w *world) applyNamespace(name, quota string) {
	w.record("namespace %s has the quota %q", name, quota)
	err := operate(w, cluster.NamespaceApply, &cluster.NamespaceApplyRequest{
		Definition: &cluster.Namespace{Name: name, Quota: quota},
	})
	if err != nil {
		w.fail("namespace %s is rejected: %v", name, err)
	}
}

// raiseQuota raises some bounds a little.
func (w *world) raiseQuota() {
	raise := func(bound *int, most int) {
		if *bound != 0 && w.chance(2) {
			*bound += 1 + w.IntN(most)
		}
	}
	raise(&w.bounds.Allocations, 2)
	raise(&w.bounds.CPU, 400)
	raise(&w.bounds.MemoryMB, 400)
	w.putQuota()
}

// liftQuotas takes the quota from the team, and raises it beyond all demand for those that keep it.
func (w *world) liftQuotas() {
	w.applyNamespace(teamNamespace, "")
	w.bounds = quota.Bounds{
		Allocations: 10_000,
		CPU:         10_000_000,
		Storage:     &quota.StorageBound{Volumes: 1000},
	}
	w.putQuota()
}

// changeVolumes registers a volume that no job uses, or deletes it. The quota may reject it.
func (w *world) changeVolumes() {
	ns := oneOf(w, structs.DefaultNamespace, teamNamespace)
	id := fmt.Sprintf("%s-%s-%d", sharePlugin, ns, w.IntN(3))
	if csi.Volume(w.store.Read(), ns, id) != nil {
		w.record("delete the volume %s/%s", ns, id)
		_ = operate(w, structs.CSIVolumeDeregister, &structs.CSIVolumeDeregisterRequest{
			ID:           id,
			WriteOptions: structs.WriteOptions{Namespace: ns},
		})
		return
	}
	err := attempt(w, fsm.VolumePut, w.aVolume(ns, id))
	w.record("register the volume %s/%s: %v", ns, id, err)
	if err != nil && !structs.IsKind(err, structs.KindPrecondition) {
		w.fail("volume %s/%s: %v", ns, id, err)
	}
}
