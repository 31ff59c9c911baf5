// Package driver is the service of driver plugins. The code is made of driver.proto.
package driver
