// Package snapschedule has the rows of schedules of snapshots, and the requests about them. A schedule takes
// snapshots of one volume at times, and deletes those that are no longer to be kept.
package snapschedule
