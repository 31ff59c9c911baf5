// Package reclaim has the rule for volumes that are deleted some time after they are no longer wanted, and
// the requests about them. Such a volume is marked: its row has the time of its deletion, and stays ready
// until then. structs.CSIVolume.Marked tells it. A volume is deleted once this time has come and no claim and
// no attachment of it is left.
package reclaim
