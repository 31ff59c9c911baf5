package fsm

import (
	"berth/state"
	"berth/structs"
)

func init() {
	draws["ServiceDelete"] = func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &structs.ServiceDeleteRequest{ServiceName: "web", ID: "none", WriteOptions: d.now()}
		for a := range state.OfferingAllocs(tx, structs.DefaultNamespace) {
			p.ServiceName = a.Services[0].ServiceName
			p.ID = a.Services[0].ID
			if d.flip() {
				break
			}
		}
		return ServiceDelete.Encode(p)
	}
}
