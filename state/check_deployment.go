package state

import (
	"fmt"

	"berth/state/schema"
	"berth/structs"
)

// checkDeployments checks that an active deployment is the only one of its job and of the current version,
// and that its counts equal its allocations.
func checkDeployments(c *schema.Report) {
	counted := map[string]*structs.Deployment{}
	of := map[structs.JobKey]string{}
	for d := range schema.ActiveDeployments.Scan(c) {
		subject := fmt.Sprintf("deployment %s of job %s/%s", d.ID, d.Namespace, d.JobID)
		j := Job(c, d.Namespace, d.JobID)
		c.Want(j != nil && !j.Stop && j.Version == d.JobVersion,
			"%s is %s and not of the current version", subject, d.Status)
		k := structs.JobKey{Namespace: d.Namespace, ID: d.JobID}
		c.Want(of[k] == "", "%s: deployment %s is active, too", subject, of[k])
		of[k] = d.ID
		counted[d.ID] = uncounted(d)
	}

	// The counts of an ended deployment stay as they were at its end, so counted lacks it.
	for a := range schema.Allocs.Scan(c) {
		s := counted[a.DeploymentID].Group(a.TaskGroup)
		if s != nil {
			deploymentCountOf(a).addTo(s)
		}
	}

	for id, d := range counted {
		for name, s := range Deployment(c, id).TaskGroups {
			is := d.TaskGroups[name]
			c.Want(is.PlacedAllocs == s.PlacedAllocs && is.HealthyAllocs == s.HealthyAllocs &&
				is.UnhealthyAllocs == s.UnhealthyAllocs,
				"deployment %s, group %q: its allocations are %d placed, %d healthy, %d unhealthy, its counts %d, %d, %d",
				id, name, is.PlacedAllocs, is.HealthyAllocs, is.UnhealthyAllocs,
				s.PlacedAllocs, s.HealthyAllocs, s.UnhealthyAllocs)
		}
	}
}

// uncounted returns a copy of a deployment whose counts are 0.
func uncounted(d *structs.Deployment) *structs.Deployment {
	c := d.Copy()
	for _, s := range c.TaskGroups {
		s.PlacedAllocs = 0
		s.HealthyAllocs = 0
		s.UnhealthyAllocs = 0
	}
	return c
}
