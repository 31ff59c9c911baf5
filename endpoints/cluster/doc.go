// Package cluster has the procedures of the cluster itself: the servers and their clocks, the configurations
// of autopilot and scheduler, namespaces, and the search over the rows of all areas.
package cluster
