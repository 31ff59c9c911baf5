package invariant

import (
	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

const stays = "a volume is placed where its plugin stays"

var plugins = []breach{
	{rule: stays, want: "late.g[0]", fleet: placeLate, view: func(v *View) { endPlugin(v, 0) }},
	{rule: stays, name: "it runs", fleet: placeLate, view: func(v *View) { v.alloc("late", 0, newest(v)) }},
	{rule: stays, name: "it ended meanwhile", fleet: placeLate, view: func(v *View) {
		endPlugin(v, v.Tx.Applied())
	}},
	{rule: stays, name: "another one follows", fleet: placeLate, view: func(v *View) {
		v.twin("csi", 0)
		v.twin("csi", 1)
		endPlugin(v, 0)
	}},
	{rule: stays, name: "placed long ago", fleet: placeLate, view: func(v *View) {
		endPlugin(v, 0)
		v.alloc("late", 0, func(a *structs.Allocation) { a.CreateIndex = 0 })
	}},
	{rule: "nothing is missing although there is capacity", name: "the plugin ends", fleet: placeLate,
		view: func(v *View) {
			endPlugin(v, 0)
			v.remove(v.ByJob[jobKey("late")][0])
		}},
	{rule: "nothing is missing although there is capacity", name: "its volume is free", want: "late of version 0",
		fleet: placeLate, view: func(v *View) { v.remove(v.ByJob[jobKey("late")][0]) }},
	{rule: "nothing is missing although there is capacity", name: "it is tried later", fleet: placeLate,
		view: func(v *View) {
			v.remove(v.ByJob[jobKey("late")][0])
			v.open("late", structs.EvalPending)
			v.Open[jobKey("late")][0].WaitUntil = 1
		}},
}

// placeLate gives each node the plugin of the volume, and places job late with another volume.
func placeLate(f *schedtest.Fleet) {
	addPlugin(f)
	for _, a := range f.Allocs("csi") {
		i := schedtest.Instance(a.NodeID)
		i.AllocID = a.ID
		schedtest.Do(f, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:       a.NodeID,
			Upserts:      []*structs.CSIPluginInstance{i},
			WriteOptions: f.Now(),
		})
	}
	f.Volume("late")
	f.Register(canonical(schedtest.Job("late", structs.JobService, 1, shared("late"))))
	f.Tick()
}

// endPlugin ends both allocations of the plugin at an index, and makes the one of job late new.
func endPlugin(v *View, index uint64) {
	for range 2 {
		v.alloc("csi", 0, stopped, func(a *structs.Allocation) { a.ModifyIndex = index })
	}
	v.alloc("late", 0, newest(v))
}
