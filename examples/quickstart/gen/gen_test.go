package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileIsWhatTheProgramMakes(t *testing.T) {
	shipped, err := os.ReadFile("../receivers.csv")
	require.NoError(t, err)
	require.True(t, bytes.Equal(shipped, generate()), "receivers.csv differs from what the program makes: run go generate in the folder of the quick start")
}

func TestTwoRunsMakeTheSame(t *testing.T) {
	require.True(t, bytes.Equal(generate(), generate()))
}
