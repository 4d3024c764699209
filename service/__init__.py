"""The Kaboost service: four doors (Kafka, HTTP, files, commands) around one room, the learner."""
