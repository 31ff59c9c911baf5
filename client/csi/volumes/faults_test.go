package volumes

import (
	"errors"
	"fmt"

	"berth/client/csi/mounts"
)

// faultsOf lists contradictions between the records, and between them and the mount table. There are none
// while no work is in flight.
func faultsOf(v *Volumes) ([]string, error) {
	records, err := v.store.publishes("")
	stages, stageErr := stageTable.All(v.store.db, "")
	table, tableErr := mounts.Read()
	if err := errors.Join(err, stageErr, tableErr); err != nil {
		return nil, err
	}
	var faults []string
	owned, expected := map[VolumeKey]bool{}, map[string]bool{}
	for _, p := range records {
		target := v.hostPath(mounts.TargetPath(p.Dir, p.AllocID))
		owned[p.key()] = owned[p.key()] || p.holds()
		expected[target] = p.mayBePublished()
		if p.State == published && p.Mounted && !table.Mounted(target) {
			faults = append(faults,
				fmt.Sprintf("volume %s is published for %s by its record, but not mounted at %s",
					p.key(), p.AllocID, target))
		}
	}
	for _, s := range stages {
		k := s.Value.key()
		expected[v.hostPath(mounts.StagePath(s.Value.Dir))] = true
		if !owned[k] {
			faults = append(faults,
				fmt.Sprintf("volume %s is %s by its record, but no allocation holds it", k, s.Value.State))
		}
	}
	for _, path := range table.Below(v.root) {
		if !expected[path] {
			faults = append(faults, fmt.Sprintf("%s is mounted, but has no record", path))
		}
	}
	return faults, nil
}
