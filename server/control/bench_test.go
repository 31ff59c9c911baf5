package control

import (
	"fmt"
	"testing"
	"time"

	"berth/state"
	"berth/structs"
)

// BenchmarkListingUnsettledVolumes is the price of one look of the controllers' loop at a cluster in which
// very much is to be done at once.
func BenchmarkListingUnsettledVolumes(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := state.New()
			err := s.Write(1, func(tx *state.Write) error {
				for i := range n {
					v := &structs.CSIVolume{ID: fmt.Sprint(i), PluginID: "pl", State: structs.VolumeCreating}
					if err := state.VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			loop := controllerLoop{Deps{Store: s, Now: time.Now, Config: DefaultConfig()}}
			p := progress{working: map[string]item{}, past: map[string]attempt{}}
			for b.Loop() {
				p.pick(loop.items(s.Watching()), 8, time.Now(), Backoff{})
			}
		})
	}
}
